"""Encoders of entries and records: JSON lines, CSV, Parquet, DbDump text."""
