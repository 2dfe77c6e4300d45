"""Checkpoints without the engine: what recovery leaves, written to the log as the engine would.

`apply` takes the directory of an environment and options, and `run` a snapshot of recovery. They
write trees, descriptors and internal database records, and return what was written. Steps take
values and do not import each other; `run` has them write in the engine's order.
"""
