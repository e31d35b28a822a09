"""Programs of several ranks: default mode, reduce-overhead and pygraph."""
