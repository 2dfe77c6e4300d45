"""The replication stream of a node: its VLSN index, its entries in the log, and its masters.

`stored` reads the index as the database has it, `recovered` computes what recovery makes of it, and
`stream` has the entries of the log. `checkpoint` writes the index by the same rules.
"""
