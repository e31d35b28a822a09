"""The memory of one call."""
