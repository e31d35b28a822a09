"""The control flow of one function: its flow graph, dominators, reaching definitions, and branches
that few calls take.

Nothing here knows what a value is. May import ``syntax``.
"""
