"""Entries and nodes encoded, and laid out in files as the engine does.

`node_writer` takes nodes as columns and returns payloads; `writer` adds headers and checksums, and
emits the bytes in log order. Nothing here writes to a disk.
"""
