"""Checkpoints of a node: its markers, their records in the log, and the log that recovery needs.

`node_checkpoints` combines markers and records. `judge` says what is wrong with them, and `reach`
how far back the log serves a historical rebalance.
"""
