"""What rules and rewrites ask about a place in a file: values, definitions, aliases, side effects.

``file_queries`` is the only door; the rest answers for it. May import ``interpreter`` and what is
below.
"""
