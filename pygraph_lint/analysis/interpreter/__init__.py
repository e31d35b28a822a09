"""The abstract interpreter: runs each function of a file once, on abstract values.

``run`` says which handler evaluates which syntax, ``state`` is what a run has at a place,
``transfer`` what operations do to values, ``incremental`` which runs an edit of the file leaves
valid. May import ``program`` and what is below.
"""
