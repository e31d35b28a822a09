"""Random numbers inside a graph."""
