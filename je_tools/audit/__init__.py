"""Audit of whole directories of logs, run by Spark or by processes of this machine.

`run.run_audit` takes directories and writes tables to a folder that appears when it is complete.
`report` makes a page, a summary and metrics of the tables.
"""
