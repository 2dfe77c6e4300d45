"""B-trees on disk, read in columns."""
