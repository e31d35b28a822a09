"""Models of transformers before and after ``--fix``: breaks, outputs, gradients."""
