"""Where `je-tools` starts: a signal that comes while all else is being loaded ends it at once.

Python would end with a traceback of whatever module was being loaded. Nothing has been begun by
then, so there is nothing to be brought in order.
"""

from __future__ import annotations

import gc
import os
import signal
from types import FrameType

from je_tools.errors import EXIT_INTERRUPTED, EXIT_TERMINATED

_ENDS = {
    signal.SIGINT: (EXIT_INTERRUPTED, b"interrupted\n"),
    signal.SIGTERM: (EXIT_TERMINATED, b""),
}
"""By signal: the exit code, as when a command is stopped, and what is said."""


def main() -> None:
    """Entry point of `je-tools`."""
    _run("main")


def db_dump() -> None:
    """Entry point of `db-dump`: the verb `dump` under the name that Berkeley DB users type."""
    _run("db_dump")


def db_recover() -> None:
    """Entry point of `db-recover`: the verb `recover`, likewise."""
    _run("db_recover")


def _run(name: str) -> None:
    """Load the commands, and call one of their entry points.

    Nothing that is loaded becomes garbage before the end, and at the end the system takes it all
    back at once: looking for garbage there would take a tenth of the time of a short command.
    """
    gc.disable()
    _load()
    gc.freeze()
    gc.enable()
    from je_tools.commands import main as commands

    try:
        getattr(commands, name)()
    finally:
        gc.freeze()


def _load() -> None:
    """Load the commands; signals that somebody else has taken, or that are ignored, stay so."""
    ours = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: signal.getsignal(number) for number in _ENDS}
    for number, handler in before.items():
        if handler in ours:
            signal.signal(number, _end)
    import je_tools.commands.main  # noqa: F401

    for number, handler in before.items():
        signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    code, text = _ENDS[signal.Signals(number)]
    try:
        os.write(2, text)
    finally:
        os._exit(code)
