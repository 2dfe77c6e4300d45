"""The use of disk space: live and obsolete bytes of each file, and the reasons to keep it."""
