"""Comparison of two environments: their records, or their files."""
