"""Find and mend what breaks ``torch.compile`` graphs or CUDA graph capture, without running the code."""

__version__ = "0.1.0"
