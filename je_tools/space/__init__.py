"""The use of disk space: live and obsolete bytes of each file, and the reasons to keep it.

`usage` takes a snapshot of recovery, and returns what the engine has counted for each file.
`recount` counts again, from the headers of all entries and the trees.
"""
