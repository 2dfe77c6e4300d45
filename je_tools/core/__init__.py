"""Parts without knowledge of logs: masking, escaping, je.properties, threads, memory, spilling."""
