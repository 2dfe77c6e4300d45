"""Files that are read: one by one with bounds, or mapped one after the other.

`source` reads spans of one file, `image` maps a log for random reads. Both report a file that
changes or shrinks while it is read.
"""
