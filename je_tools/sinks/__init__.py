"""Results into files: JSON lines, CSV, Parquet, tables for a terminal."""
