"""What is measured on the newer versions: models found by introspection, samplers, losses."""
