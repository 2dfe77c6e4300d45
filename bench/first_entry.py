"""Read the first entries of a log as a cold executor of the audit does.

    python bench/first_entry.py HOME

A new process loads what the daemon of Spark's workers loads, then what a task needs, and reads the
first range of the log. It prints the LSN of the first entry, then the names of all loaded modules.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    import pyspark.daemon  # noqa: F401

    from je_tools.audit.daemon import LOADED

    for name in LOADED:
        import_module(name)
    # Tasks arrive pickled, with a reference to this module.
    import je_tools.audit.tasks  # noqa: F401
    from je_tools.audit.discover import FoundEnvironment
    from je_tools.audit.opening import open_found
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.verify.watched_entries import watched_entries

    home = Path(sys.argv[1]).absolute()
    environment = open_found(FoundEnvironment(home.name, (home,), 0, (home,)))
    assert isinstance(environment, Environment)
    scanner = Scanner(threads=1, watched=watched_entries)
    first = next(iter(scanner.scan(environment, lambda rows: rows.lsn[:1].tolist())))
    print(first.results[0][0])
    print("\n".join(sorted(sys.modules)))


if __name__ == "__main__":
    main()
