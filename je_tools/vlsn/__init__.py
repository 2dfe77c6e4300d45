"""The replication stream of a node: its VLSN index, its entries in the log, and its masters.

`node_state.read_node` takes a snapshot, and returns the state of the node. `stored_index` reads the
index as the database has it, `recovered_index` computes what recovery makes of it, and `stream` has
the entries of the log. `checkpoint` writes the index by the same rules.
"""
