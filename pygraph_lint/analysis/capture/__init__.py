"""CUDA graphs that a file captures by hand: hazards around the capture and in it.

``hazards`` is where it begins; ``scopes`` says what names hold. May import ``loops`` and what is
below.
"""
