"""Questions about the syntax tree of one file: where a node is, what it is called or compared with.

They need nothing but Python's ``ast``. Imports nothing else of the analysis.
"""
