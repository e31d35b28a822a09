"""Training loops of one file: where their steps are, where values live, what costs on each step.

``bodies`` is where it begins. May import ``queries`` and what is below.
"""
