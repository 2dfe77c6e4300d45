"""Options and arguments that several commands share, each defined in one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from je_tools.core.masking import DataMode, Masking
from je_tools.errors import UsageError
from je_tools.formats.files.remote_path import RemotePath, located
from je_tools.formats.files.uris import URIError, is_uri

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Settings of every command."""

F = TypeVar("F", bound=Callable[..., Any])


def option_group(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, in the order of its `--help`."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


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
                    "This command reads no URIs: copy what the URI names to this host first"
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


threads_option = option_group(threads_count_option, max_rate_option)
"""`--threads` and `--max-rate`, for commands that read a log."""


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


output_option = option_group(output_file_option, file_mode_option)
"""`--output` and `--file-mode`."""


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


def check_has_output(form: str, output: Path | None) -> None:
    """Refuse a format that is not written to standard output.

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
