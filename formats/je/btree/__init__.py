"""B-tree nodes and keys as columns.

`nodes` takes entries and returns nodes with the slots of all of them. The others merge BIN-deltas,
check invariants, and compare, sort and search keys.
"""
