"""The write-ahead log of a node: its records, and verdicts on its segments.

`segment_reading` chooses one copy of each segment and yields its records in columns. `dump`,
`summary` and `verify` are the commands of these names: `dump` selects and encodes records, and
`verify` judges every file (`segment_judge`) and the files with each other. `archive` names the
files that keep a node from starting.
"""
