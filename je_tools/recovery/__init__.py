"""What the engine would make of a log when it opens it."""
