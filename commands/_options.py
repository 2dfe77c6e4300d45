"""Options and arguments that several commands share, each defined in one place."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from msgspec import Struct

from je_tools.core.escaping import printable
from je_tools.core.masking import DataMode, Masking
from je_tools.errors import UsageError
from je_tools.formats.files.remote_path import RemotePath, located
from je_tools.formats.files.uris import URIError, is_uri

if TYPE_CHECKING:
    from rich.progress import Progress

    from je_tools.core.pace import Pace

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Settings of every command."""

DELAY = 2.0
"""Seconds that work takes before its progress is shown."""

F = TypeVar("F", bound=Callable[..., Any])


class _LocalPath(click.Path):
    """A path on this host; a URI is refused, before it is taken for a relative path."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if isinstance(value, str) and is_uri(value):
            place = _parsed(value)
            if isinstance(place, RemotePath):
                how = (
                    "This command reads no URIs: copy what it names to this host first"
                    if isinstance(param, click.Argument)
                    else "This option takes no URIs"
                )
                self.fail(f"{place}: expected a path on this host. {how}", param, ctx)
            value = place
        return super().convert(value, param, ctx)


class _LogPath(_LocalPath):
    """A path on this host, or the URI of a log that is only read."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        place = _parsed(value) if isinstance(value, str) else value
        return place if isinstance(place, RemotePath) else super().convert(place, param, ctx)


def _parsed(text: str) -> Path:
    try:
        return located(text)
    except URIError as error:
        raise click.BadParameter(str(error)) from error


A_PATH = _LocalPath(path_type=Path, readable=False)
"""A path that is only checked when it is opened, so that an error has its own exit code."""

A_LOG = _LogPath(path_type=Path, readable=False)
"""A path, as `A_PATH`, or a URI."""

A_FOLDER = _LocalPath(path_type=Path, readable=False, file_okay=False)
"""A path that is not a file; see `A_PATH`."""

A_FILE = _LocalPath(path_type=Path, readable=False, dir_okay=False)
"""A path that is not a directory; see `A_PATH`."""


def _paths_argument(kind: click.Path) -> Callable[[F], F]:
    return click.argument("paths", metavar="ENV_DIR|FILE...", nargs=-1, required=True, type=kind)


environment_argument = _paths_argument(A_LOG)
"""One environment directory, or log files (.jdb, .del, .bad, .bup); paths or URIs."""

local_environment_argument = _paths_argument(A_PATH)
"""The same, on this host."""

exit_zero_option = click.option(
    "--exit-zero", is_flag=True, help="Exit with 0 instead of 3 if damage is found (for cron)."
)


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _parse_rate(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    number, unit = text[:-1], text[-1:].upper()
    if unit.isdecimal():
        number, unit = text, ""
    try:
        rate = int(float(number) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        rate = 0
    if rate < 1 << 10:
        raise click.BadParameter(
            f"expected bytes per second, at least 1K, such as 50M; found {text!r}"
        )
    return rate


def chosen_pace(rate: int | None) -> Pace | None:
    """Return the limit that `--max-rate` selects."""
    if rate is None:
        return None
    from je_tools.core.pace import Pace

    return Pace(rate)


max_rate_option = click.option(
    "--max-rate",
    metavar="RATE",
    callback=_parse_rate,
    help="Read at most this many bytes per second, such as 50M.",
)


def _threads(text: str) -> Callable[[F], F]:
    return click.option("--threads", type=click.IntRange(min=0), metavar="N", default=0, help=text)


threads_count_option = _threads("Threads that read; 0: one per core.")
"""`--threads` for commands that cannot limit how fast they read."""


def threads_option(function: F) -> F:
    """Add `--threads` and `--max-rate`, the options of commands that read a log."""
    return threads_count_option(max_rate_option(function))


encoders_option = _threads("Threads or processes that read and encode; 0: one per core, at most 4.")
"""`--threads` for commands whose output costs more than reading does."""


def unless_dash(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    """Return the path of an output; None, for standard output, also if it is `-`."""
    return None if value == Path("-") else value


_FILE_MODE = f"{__name__}.file_mode"


def _file_mode(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    if not value or set(value) - set("01234567") or int(value, 8) > 0o777:
        raise click.BadParameter(f"expected an octal number up to 777, such as 640, found {value}")
    context.meta[_FILE_MODE] = int(value, 8)


file_mode_option = click.option(
    "--file-mode",
    metavar="MODE",
    expose_value=False,
    callback=_file_mode,
    help="Permissions of output files, such as 640. The default is 600: they may hold records.",
)


def chosen_file_mode() -> int | None:
    """Return the permissions that `--file-mode` selects; None without the option."""
    mode: int | None = click.get_current_context().meta.get(_FILE_MODE)
    return mode


def output_file_outside(place: str) -> Callable[[F], F]:
    """Return the option `--output`, whose file must be outside of `place`."""
    return click.option(
        "--output",
        "-o",
        type=A_FILE,
        callback=unless_dash,
        help=f"Write to this file instead of standard output. It must be outside the {place}.",
    )


output_file_option = output_file_outside("environment")


def output_option(function: F) -> F:
    """Add `--output` and `--file-mode`."""
    return output_file_option(file_mode_option(function))


tmp_option = click.option(
    "--tmp",
    type=A_PATH,
    metavar="DIR",
    help="Directory for temporary files, which a large log needs. The default is TMPDIR, or /tmp.",
)

data_option = click.option(
    "--data",
    "data_mode",
    type=click.Choice([mode.value for mode in DataMode]),
    default=DataMode.SHOW.value,
    show_default=True,
    help="How keys and values are shown.",
)


def format_option(*formats: str, default: str = "table") -> Callable[[F], F]:
    """Return the option `--format` with the given choices."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(formats),
        default=default,
        show_default=True,
        help="Format of the results.",
    )


def needs_output(form: str, output: Path | None) -> None:
    """Refuse a format that is no text on standard output.

    Raises:
        UsageError: it is Parquet, and no output is named.
    """
    if form == "parquet" and output is None:
        raise UsageError("--format parquet needs --output")


def chosen_masking(mode: str) -> Masking:
    """Return the masking that `--data` selects, one for a run, so that salted hashes agree."""
    meta = click.get_current_context().meta
    masking: Masking = meta.setdefault(f"{__name__}.masking", Masking(DataMode(mode)))
    return masking


def say(text: str) -> None:
    """Write a line to standard error, with control characters escaped.

    If standard error is closed, the line is dropped.
    """
    try:
        click.echo(printable(text), err=True)
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def terminal_width(output: Path | None) -> int | None:
    """Return the columns of the terminal; None, for no limit, if the output is not a terminal."""
    if "COLUMNS" not in os.environ and (output is not None or not is_terminal(sys.stdout)):
        return None
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def is_terminal(stream: TextIO | None) -> bool:
    """Return True if a standard stream is a terminal; it is None if closed before the start."""
    return stream is not None and stream.isatty()


def check_no_uri(paths: Iterable[Path], what: str) -> None:
    """Refuse URIs for what needs files of this host.

    Raises:
        UsageError: one of the paths is a URI.
    """
    for path in paths:
        if isinstance(path, RemotePath):
            raise UsageError(
                f"{path}: {what} needs an environment on this host: copy it here first"
            )


class Stages(Struct, frozen=True):
    """Progress callbacks for work in several parts, as a `Scanner` takes them; none by default."""

    progress: Callable[[int], None] | None = None
    stage: Callable[[str, int], None] | None = None


class _Bar:
    """A progress bar on standard error that appears when the work has taken `DELAY` seconds."""

    def __init__(self, label: str, size: int) -> None:
        self._lock = Lock()
        self._part: tuple[str, int] | None = (label, size)
        self._done = 0
        self._shown: Progress | None = None
        self._task: Any = None
        self._timer = Timer(DELAY, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        text = TextColumn("{task.description}")
        columns = (text, BarColumn(), TaskProgressColumn(), DownloadColumn(), TimeElapsedColumn())
        with self._lock:
            if self._part is None:
                return
            self._shown = Progress(*columns, console=Console(stderr=True), transient=True)
            self._begin()
            self._shown.start()

    def _begin(self) -> None:
        """Show the part that is being done now; a bar without a total only moves."""
        if self._shown is not None and self._part is not None:
            if self._task is not None:
                self._shown.remove_task(self._task)
            label, size = self._part
            self._task = self._shown.add_task(label, total=size or None, completed=self._done)

    def advance(self, done: int) -> None:
        """Count bytes as done; a part that is done is shown no longer if nothing follows it."""
        with self._lock:
            self._done += done
            if self._shown is not None:
                self._shown.advance(self._task, done)
                if self._shown.finished:
                    # A log that is followed grows past the end of the bar.
                    self._shown.stop()

    def stage(self, label: str, size: int) -> None:
        """Begin the next part; its size is 0 if it is unknown."""
        with self._lock:
            self._part, self._done = (label, size), 0
            self._begin()
            if self._shown is not None:
                self._shown.start()

    def end(self, *, is_complete: bool) -> None:
        """Remove the bar, after showing it at 100 % if the work is complete."""
        self._timer.cancel()
        with self._lock:
            self._part = None
            if self._shown is not None:
                if is_complete:
                    total = self._shown.tasks[-1].total or 1
                    self._shown.update(self._task, total=total, completed=total, refresh=True)
                self._shown.stop()


@contextmanager
def _bar(label: str, size: int) -> Iterator[_Bar]:
    bar = _Bar(label, size)
    try:
        yield bar
    except BaseException:
        bar.end(is_complete=False)
        raise
    bar.end(is_complete=True)


@contextmanager
def staged_bar(size: int, label: str) -> Iterator[Stages]:
    """Show a bar on stderr for each part of the work, if it is a terminal and the work not short.

    Args:
        size: bytes of the log, which the first part reads; 0 if unknown.
        label: name of the first part.
    """
    if not is_terminal(sys.stderr):
        yield Stages()
        return
    with _bar(label, size) as bar:
        yield Stages(bar.advance, bar.stage)


@contextmanager
def progress_bar(size: int, label: str) -> Iterator[Callable[[int], None] | None]:
    """Show a bar over `size` bytes on stderr, if it is a terminal and the work not short.

    Yields a callback that takes the number of bytes done since its last call; None without a bar,
    as for 0 bytes.
    """
    if not size or not is_terminal(sys.stderr):
        yield None
        return
    with _bar(label, size) as bar:
        yield bar.advance
