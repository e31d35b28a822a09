"""Tensors made where they are used."""
