"""Forensics and maintenance of write-ahead logs: Berkeley DB Java Edition, Apache Ignite."""

__version__ = "0.1.0"
