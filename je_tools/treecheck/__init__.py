"""B-trees checked against the log that they are in."""
