"""Training loops with marks on the lines that cost in every step, and a scorer of the linter."""
