"""Fixes on code that no rewrite was written against: breaks removed, results equal."""
