"""Options of the commands that write to a log, and their reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict

import click

from je_tools.commands._options import A_PATH
from je_tools.commands._terminal import say
from je_tools.core.escaping import quoted
from je_tools.errors import InputError, RefusedError, UsageError

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.writing.lock import Holder


class OutputOptions(TypedDict):
    """Options of every command that writes to a log."""

    apply: bool
    path: Path
    output: Path | None
    file_max: int | None
    threads: int
    max_rate: int | None
    format_: str
    findings_path: Path | None
    exit_zero: bool


apply_option = click.option(
    "--apply", is_flag=True, help="Write it. Without this option, the command only shows the plan."
)

force_option = click.option(
    "--force",
    is_flag=True,
    help="Also cut off transactions that a replication group has committed.",
)

output_or_copy_option = click.option(
    "--output",
    "-o",
    type=A_PATH,
    metavar="FILE|DIR",
    help="Without --apply, write the results to this file instead of standard output. With "
    "--apply, leave the environment unchanged, and write to a copy: a new directory of this "
    "name.",
)

file_max_option = click.option(
    "--file-max",
    type=click.IntRange(1_000_000, 1 << 30),
    metavar="BYTES",
    help="Size of new log files. The default is the size in je.properties, or that of the "
    "largest file.",
)


def results_path(options: OutputOptions) -> Path | None:
    """Return the file that `--output` names for results; None for standard output.

    Raises:
        UsageError: with `--apply` it is `-`, or without it a directory.
    """
    output = options["output"]
    if options["apply"]:
        if output == Path("-"):
            raise UsageError("--output -: with --apply, the output is a copy: name a new directory")
        return None
    if output is None or output == Path("-"):
        return None
    if output.is_dir():
        raise UsageError(
            f"--output {output}: expected a file, found a directory: only --apply writes a copy "
            "to a directory"
        )
    return output


def tell_of_work(
    environment: Environment,
    has_changed: bool,
    options: OutputOptions,
    write: Callable[[BinaryIO], None],
) -> None:
    """Write the results of the work to standard output, and report the work even if that fails.

    Args:
        environment: the log.
        has_changed: True if the log was changed.
        options: options of the command line.
        write: writes the results to standard output.

    Raises:
        RefusedError: standard output cannot be written; a closed pipe is no error.
    """
    from je_tools.output.files.outputs import open_output
    from je_tools.output.files.standard_output import ClosedPipeError, drop_standard_output

    done = _done_text(environment, has_changed, options)
    try:
        with open_output(None) as out:
            write(out)
    except ClosedPipeError:
        drop_standard_output()
    except RefusedError as error:
        error.add_note(f"{done}; only the report of it failed")
        raise
    if has_changed or options["output"] is not None:
        say(f"je-tools: {done}")


def _done_text(environment: Environment, has_changed: bool, options: OutputOptions) -> str:
    if options["output"] is not None:
        return f"the copy {options['output']} is written, and {environment.name} is unchanged"
    if not has_changed:
        return "the log needs no change, and nothing was written"
    home = quoted(str(options["path"]))
    return f"the log is written; `je-tools undo {home} --apply` reverts it"


def say_what_would_be_done(
    snapshot: Snapshot, verb: str, options: OutputOptions, words: str = ""
) -> None:
    """Report after a dry run the command that does the work, and what prevents it.

    Args:
        snapshot: the log as it would be.
        verb: name of the command.
        options: options of the command line.
        words: further words of the command line that are needed.
    """
    from je_tools.checkpoint.judged_versions import is_written_in_place

    command = f"je-tools {verb} {quoted(str(options['path']))}{words} --apply"
    if not is_written_in_place(snapshot):
        version = snapshot.end.files[-1].version
        say(
            f"je-tools: nothing was written; `{command} --output DIR` writes to a copy: je-tools "
            f"does not write a log of version {version} in place"
        )
        return
    say(f"je-tools: nothing was written; `{command}` writes it{unless_open(options['path'])}")


def unless_open(home: Path) -> str:
    """Return the processes to stop before an environment can be written, as text; or ''."""
    from je_tools.writing.lock import LockMode, find_holders

    try:
        holders = find_holders(home)
    except InputError:
        return ""
    writers = [each.text for each in holders if each.mode is LockMode.READ_WRITE]
    who = " and ".join(writers)
    return f", after you stop {who}, which has the environment open for writing" if who else ""


def say_reader(reader: Holder, *, is_cut: bool) -> None:
    """Report an engine that has the environment open for reading."""
    text = f"je-tools: {reader.text} has the environment open for reading; "
    if is_cut:
        say(f"{text}it fails if it reads the part that is cut off: restart it afterwards")
    else:
        say(f"{text}it continues with the state that it knows")


@contextmanager
def noting_that_none_is_made(target: Path) -> Iterator[None]:
    """Note on Ctrl-C, SIGTERM and a lack of memory that the copy does not exist."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError) as error:
        if not target.exists():
            error.add_note(f"{target} was not created, and the environment is unchanged")
        raise
