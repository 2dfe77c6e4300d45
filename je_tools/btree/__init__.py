"""B-trees in the log, read in columns: nodes, their replay by recovery, and their faults."""
