"""Ground truth for the linter, measured on tiny models, and the linter's score on it."""
