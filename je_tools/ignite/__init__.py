"""Apache Ignite's persistent stores: what lies in a work directory, and its write-ahead log.

`store` finds the nodes and the files of each; `wal` reads the segments of a node.
"""
