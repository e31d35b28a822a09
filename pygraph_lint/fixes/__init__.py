"""Rewrites: one small file each, behind ``engine.fix_text``."""
