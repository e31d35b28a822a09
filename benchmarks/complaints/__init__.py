"""Public complaints about torch.compile and CUDA graphs, one small program each."""
