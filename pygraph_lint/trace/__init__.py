"""Joins what a program did, as `pygraph_rt.trace` recorded it, with what the source says."""
