"""The audit of whole directories of logs: a Spark job whose executors run verify's own code."""
