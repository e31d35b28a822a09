"""Branches on tensors that become selections."""
