"""`je-tools erase abort`: files that a running erasure must leave as they are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TypedDict, Unpack

import click

from je_tools.commands._options import CONTEXT
from je_tools.commands._snapshot import home_argument, open_home
from je_tools.commands._terminal import say
from je_tools.errors import UsageError
from je_tools.log.file_names import home_of

TIMEOUT_S = 30.0
"""Longest time to wait. Source: EnvironmentParams.ERASE_ABORT_TIMEOUT, JE 25.3.17."""


class Options(TypedDict):
    """Options of the command line."""

    path: Path
    files: tuple[str, ...]
    release: bool
    timeout: float


@click.command("abort", context_settings=CONTEXT)
@home_argument
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--release",
    is_flag=True,
    help="Let erasures change these files again; all protected files if none is named.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Longest time to wait until a running erasure has left the files.",
)
def command(**options: Unpack[Options]) -> int:
    """Protect files from erasure while a backup copies them.

    If a file is erased while it is copied, the copy is in no state that the log ever had. The
    command notes the files in the folder .je-tools-erase of the environment, and waits until a
    running erasure has left them; then it is safe to copy them. The files stay protected, also from
    later erasures, until the command is run with --release. Files with hard links need no
    protection: erasures leave them as they are. The exit code is 6 if the time limit passes.

    \b
    Examples:
      je-tools erase abort env 0000001a.jdb 0000001b.jdb
      je-tools erase abort env --release
    """
    from je_tools.erase import control_files
    from je_tools.writing.disk import Disk
    from je_tools.writing.lock import LockMode, find_holders

    home = options["path"]
    environment = open_home(home, keep_going=False)
    names = {_checked_name(each, home) for each in options["files"]}
    if not math.isfinite(options["timeout"]):
        raise UsageError(f"--timeout {options['timeout']}: expected a number of seconds")
    disk = Disk()
    if options["release"]:
        released = names or control_files.protected_names(home)
        control_files.release_files(home, released, disk)
        text = "erasures may change them again" if released else "none was protected"
        say(f"je-tools: {_listed(released)}: {text}")
        return 0
    if not names:
        raise UsageError("no file is named: name the log files that are to be copied")
    unknown = names - {file.path.name for file in environment.files}
    if unknown:
        raise UsageError(f"{min(unknown)}: the environment has no log file of this name")
    control_files.protect_files(home, names, disk)

    def is_running() -> bool:
        return any(each.mode is LockMode.READ_WRITE for each in find_holders(home))

    control_files.wait_until_left(home, names, is_running, options["timeout"])
    say(f"je-tools: {_listed(names)}: no erasure changes them until `erase abort --release`")
    return 0


def _checked_name(text: str, home: Path) -> str:
    """Return the name of a file that was named with or without its folder.

    Raises:
        UsageError: it lies in another folder.
    """
    path = Path(text)
    folder = home_of(path).absolute()
    if path.name != text and folder.resolve() != home.resolve():
        raise UsageError(f"{text}: the file is not in {home}")
    return path.name


def _listed(names: set[str] | frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "no file"
