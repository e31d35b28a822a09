"""A differential fuzzer: programs made of idioms, original against fixed."""
