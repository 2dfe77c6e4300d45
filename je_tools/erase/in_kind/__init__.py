"""Erasure in kind: entries of logs before version 17 become blank and keep their type.

A blank entry changes in several places, so a write that is cut short leaves a wrong checksum. A
redo journal, which holds no data of records, is durable before the first byte of a file is changed.
`overwriting` does what the journal says, and `resuming` does it again after an interruption.
"""
