"""Audit of whole directories of logs: a Spark job whose executors run the code of `verify`."""
