"""The check of B-trees against the log that holds them.

`run.check_trees` takes a snapshot and the cleaner metadata in it. It returns the problems of each
tree: contradictions between nodes, unreadable records, and records that the cleaner may delete.
`verification.verify_with_trees` yields them as findings after those of `verify`.
"""
