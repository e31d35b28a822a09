"""Whether a graph pays: measured, grouped, remembered."""
