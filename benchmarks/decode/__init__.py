"""Decoding of an 8B-shaped Llama beside the bandwidth of the same GPU."""
