"""Apache Ignite's persistent stores: what lies in a work directory, how sound it is, and repairs.

`store` finds the nodes and the files of each. `wal`, `checkpoints` and `pages` read these files,
and `page_check` judges the pages. `recovery` computes what the next start of a node would do, with
`logical` for the operations in the log, and `repairs` changes files. `records` has the contents of
caches after recovery, `values` shows keys and values, and `diff` compares two nodes.
"""
