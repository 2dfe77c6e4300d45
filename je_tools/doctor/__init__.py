"""Diagnosis of one environment: one answer that combines those of the other capabilities.

`examination.diagnose` takes a directory and returns a `facts.Diagnosis`: whether the engine would
open the log, what would be lost, its condition, all findings, and the commands to run next. It only
reads.
"""
