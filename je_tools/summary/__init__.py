"""Totals of a log by entry type, file, database, checkpoint and transaction."""
