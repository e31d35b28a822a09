"""Effects that are kept out of compiled code."""
