"""Questions that several rewrites ask, and steps that several make."""
