"""Facts that real engines report of their logs, read independently of the tool under test."""
