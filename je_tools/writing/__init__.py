"""Changing a log: the engine's lock, undo journals, writes in a safe order, and undo."""
