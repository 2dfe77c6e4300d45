"""Logs built byte by byte from the format's description, for tests of damage."""
