"""An editor server: findings, evidence and fixes as you type (Language Server Protocol).

Two processes. The one that the editor starts (``front``) holds the open texts and answers at once
from what it knows. A second one (``worker``) analyses; it can be interrupted by an edit and started
again after a crash. ``messages`` is all that they say to each other. What the worker says of a text
that has changed since is dropped.
"""
