"""Errors that end a command, each with the exit code that the documentation promises.

Damage in a log is a `Finding`, and exit code 3 comes from the findings. It is an error only where
it may hide what was asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

EXIT_OK = 0
EXIT_BUG = 1
EXIT_USAGE = 2
EXIT_DAMAGE = 3
EXIT_INPUT = 4
EXIT_STOPPED = 5
EXIT_REFUSED = 6
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

EXIT_MEANINGS: dict[int, str] = {
    EXIT_OK: "Done, and no damage was found. A closed pipe (`| head`) is 0 too.",
    EXIT_BUG: "A bug of je-tools. Please report it with the text that was printed.",
    EXIT_USAGE: "The command line is wrong. The message says which part.",
    EXIT_DAMAGE: (
        "Finished, but one of these is true: damage was found; a log file cannot be opened, and "
        "the command read the others; records are lost (`salvage`, `missing`, also with "
        "`--without`) or were cut off after damage (`recover --apply`); environments differ or a "
        "copy is incomplete (`diff`); the engine would refuse the log or its settings (`doctor`, "
        "`recover`, `space`); a text has no known message (`explain`). `--exit-zero` makes this 0, "
        "for cron jobs."
    ),
    EXIT_INPUT: (
        "The input is missing, cannot be read, has another format, or has an unsupported version; "
        "or the log has no record of the key (`get`)."
    ),
    EXIT_STOPPED: (
        "Stopped early: a file became shorter, vanished or was replaced while it was read; or "
        "Spark failed or ended (`audit`)."
    ),
    EXIT_REFUSED: (
        "Refused: the environment is locked, an output exists or cannot be written, a confirmation "
        "is missing, or there is too little memory."
    ),
    EXIT_INTERRUPTED: "Interrupted from the keyboard.",
    EXIT_TERMINATED: "Ended by SIGTERM, as `timeout` sends it; no half-written output is left.",
}
"""Meaning of every exit code of every command."""


class JeToolsError(Exception):
    """An error that ends a command. Its text says what failed, where, and what to do next."""

    exit_code = EXIT_BUG


class UsageError(JeToolsError):
    """An invalid option or argument."""

    exit_code = EXIT_USAGE


class InputError(JeToolsError):
    """Input that is missing, unreadable, or of another format or version."""

    exit_code = EXIT_INPUT


class NoLogError(InputError):
    """A file or directory that exists, and is no log of JE.

    Attributes:
        path: the file or directory.
    """

    def __init__(self, text: str, path: Path | None = None) -> None:
        """Create an error."""
        super().__init__(text)
        self.path = path


class DamageError(InputError):
    """Damage that may hide what was asked for."""

    exit_code = EXIT_DAMAGE


class StoppedError(JeToolsError):
    """Input that changed while it was read, or a process reading it that ended."""

    exit_code = EXIT_STOPPED


class RefusedError(JeToolsError):
    """An action refused because it would do harm: a lock, an existing output, no confirmation."""

    exit_code = EXIT_REFUSED
