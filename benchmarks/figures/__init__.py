"""Figures of the documentation, from the committed result files: ``make figures``."""
