"""B-trees in the log, read in columns: their nodes, the replay of these, and their faults."""
