"""A small trainer in several modules: engine, metrics, callbacks."""

from .engine import Engine, main

__all__ = ["Engine", "main"]
