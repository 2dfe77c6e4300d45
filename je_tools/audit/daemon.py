"""Daemon from which Spark forks its Python workers on a host, with our code already loaded.

Otherwise each worker loads it by itself, which takes longer than reading 50 MB of a log.
Run as `python -m je_tools.audit.daemon pyspark.worker`.
"""

from __future__ import annotations

import os
from importlib import import_module

# Threads do not survive a fork, and a worker has one core: numpy must not start any here.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

LOADED = (
    "numpy",
    "je_tools.files.listing",
    "je_tools.formats.je.entry.columns",
    "je_tools.formats.je.entry.entries",
    "je_tools.summary.run",
    "je_tools.verify.judge",
)
"""Modules that are loaded in advance: those that start no threads, so not pyarrow."""

MODULE = "je_tools.audit.daemon"
"""Module that Spark is configured to run."""


def main() -> None:
    """Load the modules, then serve as Spark's own daemon does."""
    from pyspark.daemon import manager

    for name in LOADED:
        import_module(name)
    manager()


if __name__ == "__main__":
    main()
