"""Proof of erasure: an independent search of all bytes below a directory.

`needles` has what is searched for, `tree` the files, `raw_search` the bytes of every file, and
`node_search` what a search of bytes misses: keys that a prefix cuts in two. `run` combines them.
"""
