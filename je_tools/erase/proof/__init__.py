"""Proof of erasure: an independent search of all bytes below a directory.

`run.prove` takes a directory and needles, and returns a `Proof`. `file_tree` lists the files,
`raw_search` searches the bytes of each, and `node_search` finds what a search of bytes misses: keys
that a prefix cuts in two.
"""
