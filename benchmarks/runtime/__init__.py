"""Benchmarks of the runtime: `make bench-rt PYTHON=...`."""
