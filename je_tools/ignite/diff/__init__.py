"""Comparison of the partitions of two nodes, as both would be after recovery.

It takes two nodes, computes what the engine's check of idle partitions would compute on them, and
returns for each partition whether they agree, and which node needs what of the other.
"""
