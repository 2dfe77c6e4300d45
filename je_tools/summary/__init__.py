"""Totals of a log by entry type, file, database, checkpoint and transaction.

`run.summarize` takes an environment and the totals that are wanted, reads the log once, and returns
a `Summary`. It looks for damage as `verify` does, and leaves damaged entries out of the totals.
"""
