"""Which code is compiled, captured or run on every step of a training loop, and by which call path.

``compiled`` finds regions of torch.compile, ``training_loops`` those of loops. May import
``interprocedural`` and what is below.
"""
