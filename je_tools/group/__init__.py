"""The replication group as a node knows it.

`read_group` returns the records of the group database as typed values, with what is wrong in them.
"""
