"""The first served call, compared with the compiled code."""
