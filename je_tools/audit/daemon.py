"""Daemon from which Spark forks its Python workers on a host, with our code already loaded.

Otherwise each worker loads it by itself, which takes longer than reading 50 MB of a log.
Run as `python -m je_tools.audit.daemon pyspark.worker`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from zipimport import zipimporter

# Threads do not survive a fork, and a worker has one core: numpy must not start any here.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

LOADED = (
    "je_tools.audit.judging",
    "je_tools.audit.member_reading",
    "je_tools.audit.part_scan",
    "je_tools.audit.stakes",
    "je_tools.audit.tasks",
    "je_tools.audit.stake_rows",
    "je_tools.doctor.log_scan",
    "je_tools.doctor.replication",
    "je_tools.formats.je.entry.columns",
    "je_tools.missing.run",
    "je_tools.summary.run",
)
"""Modules that are loaded in advance.

pyarrow, which they load, has one thread then: that of jemalloc, which handles forks by itself.
"""

MODULE = "je_tools.audit.daemon"
"""Module that Spark is configured to run."""


def main(worker_modules: Sequence[str]) -> None:
    """Load modules in advance, then serve as Spark's own daemon does.

    Args:
        worker_modules: further modules to load: the one that each worker runs, as Spark's command
            names it. Otherwise each worker would compile it, since PySpark is in an archive.
            Spark's daemon reads its name from the command by itself.
    """
    from pyspark.daemon import manager

    for name in (*LOADED, *worker_modules):
        import_module(name)
    forget_archives()
    # A worker searches for garbage after each task: 40 ms, if it examines all that is loaded.
    gc.freeze()
    manager()


def forget_archives() -> None:
    """Forget the archives that modules were loaded from; the next import opens them again.

    Each worker tells Python that folders may have changed. It would then read the directory of
    PySpark's archive once for each of its packages, which takes a second.
    """
    found = sys.path_importer_cache
    for path in [path for path, finder in found.items() if isinstance(finder, zipimporter)]:
        del found[path]


if __name__ == "__main__":
    main(sys.argv[1:])
