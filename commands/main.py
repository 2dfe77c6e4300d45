"""The command group `je-tools`, the entry points, and the exit codes of errors."""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
import warnings
from typing import Any, cast

import click

from je_tools import __version__
from je_tools.commands._command_groups import SuggestingGroup
from je_tools.commands._options import CONTEXT
from je_tools.commands._terminal import say
from je_tools.core.escaping import printable
from je_tools.core.memory import own_this_process
from je_tools.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_TERMINATED,
    JeToolsError,
    NoLogError,
)

GROUPS: dict[str, dict[str, str]] = {
    "Look at a log": {
        "doctor": "Say whether the engine opens a log, what would be lost, and what to do next.",
        "verify": "Report every damaged byte range of a log. Torn tails do not count as damage.",
        "summary": "Count entries and bytes by type, file, database, checkpoint and transaction.",
        "files": "List the log files: version, size, LSNs, VLSNs, JE releases that open them.",
        "dump": "Print the entries of a log, filtered, as a table, JSON lines, CSV or Parquet.",
        "explain": "Explain a message of an engine, an entry type, a finding, or an entry's bytes.",
        "lock": "Show the processes that have an environment open, for writing or reading.",
    },
    "Recover": {
        "recover": "Show what the engine's recovery would do with a log, or do it (--apply).",
        "missing": "Show what is lost with missing files, and which records other files have.",
        "salvage": "Write the records that survive in a broken log, and a report of the losses.",
    },
    "Records": {
        "databases": "List the databases: id, flags, records, depth, nodes, bytes, comparators.",
        "count": "Count the records of each database, as they are after recovery.",
        "get": "Show the records of a key, or every version of them that is still in the log.",
        "export": "Write the records of databases as DbDump text, JSON lines, CSV or Parquet.",
        "diff": "Compare two environments, or an environment and its backup.",
    },
    "Space": {
        "space": "Show how full each log file is, why it still exists, and the disk limits.",
    },
    "Replication": {
        "vlsn": "Show and check the VLSN index of a node, compare nodes, and roll a node back.",
        "group": "Show the replication group as a node knows it, and reset it to one node.",
        "journal": "Show the journals of StarRocks and Doris front ends: ids, holes, truncation.",
    },
    "Change a log": {
        "checkpoint": "Write the checkpoint that a crashed log lacks, so that it opens at once.",
        "erase": "Overwrite old versions, deleted records and removed databases.",
        "undo": "List the changes that commands made to a log, and revert the newest.",
    },
    "Apache Ignite": {
        "ignite": "Check, repair, export and compare the stores of Apache Ignite nodes.",
    },
    "Fleet": {
        "audit": "Verify all environments below directories, on Spark; write tables and a report.",
    },
}
"""Commands and their lines in `--help`, by heading; the first group is for the first questions."""

COMMANDS: dict[str, str] = {
    name: text for commands in GROUPS.values() for name, text in commands.items()
}
"""Commands and their lines. The module of a command is loaded when it is run."""


class LazyGroup(SuggestingGroup):
    """A group that imports the module of a command only on use, so that `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command of a name: `command` in the module of this name."""
        return _load(name, "command") if name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from `GROUPS`, without importing them."""
        longest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                # With one width for all, the texts of all groups begin in one column.
                rows = [(name.ljust(longest), text) for name, text in commands.items()]
                formatter.write_dl(rows)


def is_run(arguments: list[str]) -> bool:
    """Return True if these arguments of `je-tools` run a command, and do not ask for help."""
    helps = CONTEXT["help_option_names"]
    return bool(arguments) and arguments[0] in COMMANDS and not set(helps).intersection(arguments)


def _load(module: str, command: str) -> click.Command:
    """Return a command of a module of this package, which is imported now."""
    found: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), command)
    return found


@click.group("je-tools", cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(__version__, "--version", "-V", prog_name="je-tools")
def group() -> None:
    """Forensics and repair of write-ahead logs: Berkeley DB Java Edition and Apache Ignite.

    je-tools reads .jdb files of StarRocks, Doris, OpenDJ, Oracle NoSQL, Heritrix and others (log
    versions 6 to 26), and stores of Apache Ignite 2.4 to 2.18. It also reads damaged files, and
    files of a running engine. Commands that only read take no lock, and write nothing to the
    environment.

    \b
    Examples:
      je-tools verify meta/bdb          is this log intact?
      je-tools summary meta/bdb         what does it contain?
      je-tools dump meta/bdb --limit 5  what are its first entries?
    """


UNWRITABLE = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
"""Errors of a write to an output that could be opened."""


def run(command: click.Command, arguments: list[str] | None = None) -> int:
    """Run a command, and return the exit code for its result or error.

    A command may return the arguments of another one, which is then run.
    """
    try:
        words = sys.argv[1:] if arguments is None else arguments
        result = _call(command, words)
        if isinstance(result, list):
            result = _call(group, result)
        if cast(Any, sys.stdout) is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else EXIT_OK
    except (click.Abort, KeyboardInterrupt, SystemExit) as error:
        return _stopped(error)
    except click.ClickException as error:
        text = io.StringIO()
        error.show(text)
        for line in text.getvalue().splitlines():
            say(line)
        return error.exit_code
    except NoLogError as error:
        from je_tools.commands._ignite_hint import ignite_hint

        name = words[0] if command is group and words else command.name or ""
        say(_noted(f"je-tools: {ignite_hint(error, name, words[1:]) or error}", error))
        return error.exit_code
    except JeToolsError as error:
        say(_noted(f"je-tools: {error}", error))
        return error.exit_code
    except MemoryError as error:
        return _out_of_memory(error)
    except OSError as error:
        return _out_of_memory(error) if error.errno == errno.ENOMEM else _output_failed(error)
    except RuntimeError as error:
        if error.args == (_NO_THREAD,):
            return _out_of_memory(error)
        # A signal during an import that defines a class arrives as the cause of a RuntimeError.
        if isinstance(error.__cause__, KeyboardInterrupt | SystemExit):
            return _stopped(error.__cause__)
        raise


_NO_THREAD = "can't start new thread"
"""Text of CPython's error if there is no memory for the stack of a thread, or no more threads."""


def _out_of_memory(error: Exception) -> int:
    """Return the exit code for a lack of memory."""
    text = (
        "je-tools: out of memory or threads: the process (ulimit -v, ulimit -u, a container) or "
        "the machine has too little. Raise the limits; --threads 1 needs the least"
    )
    say(_noted(text, error))
    return EXIT_REFUSED


def _stopped(error: BaseException) -> int:
    """Return the exit code of a command that was stopped by a signal.

    Raises:
        SystemExit: the error itself, if it did not come from a signal.
    """
    if not isinstance(error, SystemExit):
        say(_noted("interrupted", error))
        return EXIT_INTERRUPTED
    if error.code != EXIT_TERMINATED:
        raise error
    if _noted("", error):
        say(_noted("terminated", error))
    return EXIT_TERMINATED


def _noted(text: str, error: BaseException) -> str:
    """Return a text with the notes of an error, which give the state in which it leaves a log."""
    for note in getattr(error, "__notes__", ()):
        text += f" {note[0].upper()}{note[1:]}" if text.endswith(".") else f"; {note}"
    return text


def _call(command: click.Command, arguments: list[str]) -> Any:
    """Do what click's `main` does, without its error handling: it exits 1 on a closed pipe."""
    name = command.name or "je-tools"
    variable = f"_{name}_COMPLETE".replace("-", "_").upper()
    completion = os.environ.get(variable)
    if completion:
        from click.shell_completion import shell_complete

        return shell_complete(command, {}, name, variable, completion)
    try:
        with command.make_context(name, list(arguments)) as context:
            return command.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code


def _output_failed(error: OSError) -> int:
    """Return the exit code for an error of standard output, to which help texts also go.

    Raises:
        OSError: the error itself, if it does not come from standard output.
    """
    from je_tools.output.files.standard_output import (
        ClosedPipeError,
        drop_standard_output,
        is_closed_pipe,
    )

    is_closed = is_closed_pipe(sys.stdout)
    is_broken = drop_standard_output()
    if isinstance(error, ClosedPipeError) or (isinstance(error, BrokenPipeError) and is_closed):
        return EXIT_OK
    # An unbuffered stream does not fail again. Errors of files being read have a file name.
    if not is_broken and (error.filename is not None or error.errno not in UNWRITABLE):
        raise error
    say(_noted(f"je-tools: standard output: cannot be written: {error.strerror}", error))
    return EXIT_REFUSED


def main() -> None:
    """Run `je-tools`."""
    _begin()
    sys.exit(run(group))


def db_dump() -> None:
    """Run `db-dump`: the command `dump`, or with -h HOME the engine's DbDump."""
    _begin()
    sys.exit(run(dump_tool(sys.argv[1:])))


def db_recover() -> None:
    """Run `db-recover`: the command `recover`, or with -h HOME db_recover."""
    _begin()
    sys.exit(run(recover_tool(sys.argv[1:])))


def db_erase() -> None:
    """Run `db-erase`: the command `erase`."""
    _begin()
    sys.exit(run(_load("erase", "command")))


def dump_tool(arguments: list[str]) -> click.Command:
    """Return the command that `db-dump` is with these arguments."""
    from je_tools.commands import _berkeley_db_tools as engine

    if engine.names_home(arguments):
        return engine.dump_arguments
    return _load("dump", "db_dump_command")


def recover_tool(arguments: list[str]) -> click.Command:
    """Return the command that `db-recover` is with these arguments."""
    from je_tools.commands import _berkeley_db_tools as engine

    if engine.names_home(arguments):
        return engine.recover_arguments
    return _load("recover", "db_recover_command")


def _begin() -> None:
    own_this_process()
    warnings.formatwarning = cast(Any, _warning_line)
    # For help and completions; results are encoded by their writers.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    # After SIGTERM, as after Ctrl-C, partial files are removed and workers end in order.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _terminate(_number: int, _frame: object) -> None:
    _ignore_more()
    sys.exit(EXIT_TERMINATED)


def _interrupt(_number: int, _frame: object) -> None:
    _ignore_more()
    raise KeyboardInterrupt


def _ignore_more() -> None:
    """Ignore further signals: they would stop the cleanup that the first one starts."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _warning_line(message: Warning | str, *_: Any, **__: Any) -> str:
    return printable(f"je-tools: {message}") + "\n"
