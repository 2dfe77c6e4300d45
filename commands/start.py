"""Start of `je-tools`: a signal during the imports ends the process at once.

Python would end with a traceback of the module being imported. Nothing has begun by then, so there
is nothing to clean up.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

from je_tools.errors import EXIT_INTERRUPTED, EXIT_TERMINATED

_ENDS = {
    signal.SIGINT: (EXIT_INTERRUPTED, b"interrupted\n"),
    signal.SIGTERM: (EXIT_TERMINATED, b""),
}
"""Exit code and message by signal, as for a command that is stopped."""

OBJECTS_PER_SEARCH = 50_000
"""Number of new objects after which Python searches for garbage; 700 by default."""


def main() -> None:
    """Run `je-tools`."""
    _run("main")


def db_dump() -> None:
    """Run `db-dump`: the command `dump` under the name known to Berkeley DB users."""
    _run("db_dump")


def db_recover() -> None:
    """Run `db-recover`: the command `recover`, likewise."""
    _run("db_recover")


def db_erase() -> None:
    """Run `db-erase`: the command `erase`."""
    _run("db_erase")


def _run(name: str) -> None:
    """Load the commands, and call one of their entry points.

    Nothing that is loaded becomes garbage before the end, when the system frees everything at
    once: a search for garbage would take a tenth of the time of a short command. Commands load
    more modules, and their own work makes about 100 objects that only a search can free.
    """
    gc.disable()
    _load()
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_SEARCH)
    gc.enable()
    from je_tools.commands import main as commands

    try:
        getattr(commands, name)()
    finally:
        gc.freeze()


def _load() -> None:
    """Load the commands under `_end`, which replaces only the default signal handlers."""
    ours = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: signal.getsignal(number) for number in _ENDS}
    for number, handler in before.items():
        if handler in ours:
            signal.signal(number, _end)
    from je_tools.commands.main import is_run

    if is_run(sys.argv[1:]):
        # At certain depths of the stack, Python 3.11 maps memory for each call, and unmaps it. Deep
        # in the imports of `count`, numpy makes 3,100 such calls, a tenth of the start.
        import numpy  # noqa: F401

    for number, handler in before.items():
        signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    code, text = _ENDS[signal.Signals(number)]
    try:
        os.write(2, text)
    finally:
        os._exit(code)
