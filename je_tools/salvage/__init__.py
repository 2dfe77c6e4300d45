"""Salvage: records of a broken log, read without a root and without a checkpoint.

`run.salvage` takes an environment and decides which records come back, each with a confidence.
`run.write` writes them, and `report` writes what is lost: gaps, keys and names.
"""
