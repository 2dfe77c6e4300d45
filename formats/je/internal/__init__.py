"""Records of the engine's own databases.

`records` takes the name of a database and the bytes of a record, and returns a typed value.
"""
