"""Destinations of results: files and directories that appear only when complete.

`outputs.open_output` takes a path, or None for standard output, and yields a binary file. An output
is written beside its path, synced, and gets its name at the end; after an error nothing is left.
"""
