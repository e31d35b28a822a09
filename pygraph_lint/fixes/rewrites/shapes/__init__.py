"""Sizes that do not depend on values."""
