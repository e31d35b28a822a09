"""Find and mend, without running it, code that breaks torch.compile graphs or graph capture."""

__version__ = "0.1.0"
