"""Find and fix, without running it, code that breaks torch.compile graphs or graph capture."""

__version__ = "0.2.0"
