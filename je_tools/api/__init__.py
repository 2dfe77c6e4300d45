"""The Python API: logs as Arrow record batches and typed results, with damage as findings.

`je_tools.open` is its entry; docs/python.md shows its use. It calls the functions that the commands
call, prints nothing, and writes nothing.
"""
