"""The CUDA driver, checked; global switches; native helpers."""
