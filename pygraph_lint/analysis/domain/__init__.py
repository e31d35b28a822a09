"""The abstract domain: what an expression may be, what may happen in a line, and tables of torch.

``values`` is the lattice that the interpreter computes with; ``events`` are what rules report, with
the needs that have to be proven first; ``ops`` says what torch's functions are. May import
``syntax`` and ``control_flow``.
"""
