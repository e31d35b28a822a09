"""Models before and after ``--fix``: graph breaks, outputs and gradients of copies of
transformers."""
