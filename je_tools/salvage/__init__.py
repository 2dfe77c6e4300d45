"""Records out of a broken log: what is left of it, read without a root and without a checkpoint."""
