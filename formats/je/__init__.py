"""Berkeley DB Java Edition logs, versions 1 to 26.

The modules here declare entry types, the fields of each, flags and headers. The packages below
decode entries, walk logs, and read and write nodes by this declaration.
"""
