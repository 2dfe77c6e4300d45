"""Verification of a log: damaged ranges, and consistency across files."""
