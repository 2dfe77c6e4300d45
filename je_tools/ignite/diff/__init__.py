"""Comparison of the partitions of two nodes, as both would be after recovery.

The package takes two nodes, and computes the hashes that the engine's check of idle partitions
would compute on them. It returns for each partition whether the copies agree, and which needs data.
"""
