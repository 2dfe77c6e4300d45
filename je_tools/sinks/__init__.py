"""Writers of results: JSON lines, CSV, Parquet, and tables for a terminal."""
