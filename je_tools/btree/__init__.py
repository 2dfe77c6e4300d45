"""B-trees in the log, read in columns: nodes, their replay by recovery, and their faults.

`tree.Tree` takes an image of the log, and reads nodes in the versions that recovery puts into the
tree. It returns them as columns of slots, with the faults of nodes that are damaged or misplaced.
"""
