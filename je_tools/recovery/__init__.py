"""Recovery in memory: the state to which the engine would bring a log when it opens it."""
