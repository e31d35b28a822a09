"""CPU numbers and tensors that GPU code reads."""
