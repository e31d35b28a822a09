"""Random numbers inside a graph: philox.py explains what is done, probe.py reads a capture."""
