"""Losses from files of a log that do not exist: whole databases, ranges of keys, and single keys.

`run.report_missing` takes an environment and the numbers of files to treat as missing. It returns
the losses of each database, and how much of them the other files still have.
"""
