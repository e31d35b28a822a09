"""A project: its files to findings, and the findings that settings and comments leave."""
