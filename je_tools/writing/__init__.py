"""How a log is changed: the engine's lock, an undo journal, writes in a safe order, and undo."""
