"""Ten frameworks' own loops, under default mode, reduce-overhead and pygraph."""
