"""Opening of logs that commands read, with a note about what an erasure has left unfinished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.commands._terminal import say

if TYPE_CHECKING:
    from je_tools.log.environment import Environment


_NOT_SEEN = (
    "read from an object store, which shows no locks: je-tools cannot tell whether an engine has "
    "the log open. If an object is replaced while it is read, the command ends"
)


def open_log(paths: Sequence[Path], *, keep_going: bool = True) -> Environment:
    """Open a log; if an erasure of it was interrupted, say so.

    Args:
        paths: paths that the user named.
        keep_going: as for `open_environment`.

    Raises:
        InputError, UsageError, StoppedError: as `open_environment`.
    """
    from je_tools.log.file_names import home_of
    from je_tools.log.opening import open_environment
    from je_tools.writing.redo_folder import is_unfinished, unfinished_text

    environment = open_environment(paths, keep_going=keep_going)
    home = environment.home if environment.is_directory else home_of(paths[0])
    if environment.is_remote:
        say(f"je-tools: {environment.name}: {_NOT_SEEN}")
    if is_unfinished(home):
        say(f"je-tools: {home}: {unfinished_text(home)}")
    return environment
