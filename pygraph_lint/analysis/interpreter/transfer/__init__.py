"""What operations do to abstract values, by domain."""
