"""Parts without knowledge of logs: masking, escaping, settings of the engine, threads."""
