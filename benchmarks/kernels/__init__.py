"""Does `backend="pygraph"` compile the same kernels as torch.compile's default mode?"""
