"""Formats of outputs by kind of answer, so that all commands offer the same ones."""

from __future__ import annotations

ROWS = ("table", "jsonl", "csv", "parquet")
"""Formats of rows: entries, result tables, findings."""

RECORDS = ("dump", "jsonl", "csv", "parquet")
"""Formats of records: the text of the engine's DbDump instead of a table."""

REPORT_WITH_ROWS = ("table", "json", "jsonl", "csv", "parquet")
"""Formats of an answer of several parts, one of them rows: CSV and Parquet have only these."""

REPORT = ("table", "json", "jsonl")
"""Formats of an answer that is one thing with its parts: JSON is one object."""
