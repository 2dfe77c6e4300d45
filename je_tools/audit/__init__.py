"""Audit of whole directories of logs: a Spark job whose executors run the code of `verify`.

`run.run_audit` takes directories and writes tables to a folder that appears when it is complete.
`report` makes a page, a summary and metrics of the tables.
"""
