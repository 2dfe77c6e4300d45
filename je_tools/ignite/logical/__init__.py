"""Logical recovery of a node's log: the newest operation on each key, as columns.

It reads from the begin of the newest checkpoint to the end of the log, and leaves out what the
engine leaves out: entries of transactions that did not commit, and everything after the first
record that cannot be read.
"""
