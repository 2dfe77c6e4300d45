"""Verification of a log: damaged ranges, and consistency across files.

`judge.verify` takes an environment, reads the whole log, and yields findings with byte ranges.
Commands that read a log for another purpose pass its rows to `judge.Judge`, and get the same
findings.
"""
