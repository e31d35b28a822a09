"""A file a complaint: its docstring says what was complained of, and where."""
