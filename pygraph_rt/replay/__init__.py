"""The hot path: addresses, patch, launch, outputs."""
