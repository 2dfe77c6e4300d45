"""The lazy command group, and the one map from errors to exit codes."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any, cast

import click

from je_tools import __version__
from je_tools.commands._options import CONTEXT
from je_tools.errors import EXIT_INTERRUPTED, EXIT_OK, JeToolsError

COMMANDS: dict[str, str] = {
    "dump": "Print the entries of a log, filtered, as table, JSON lines, CSV or Parquet.",
    "summary": "Count entries and bytes by type, file, database, checkpoint and transaction.",
    "verify": "Report every damaged byte range of a log, torn tails told from damage.",
    "files": "List the log files: version, size, LSNs, VLSNs, which JE releases open them.",
    "explain": "Explain an entry type, a finding, an exit code, or one entry byte by byte.",
}
"""Every verb, and its line in `--help`. A verb's module is loaded when it is run."""


class LazyGroup(click.Group):
    """Imports a verb's module only when it is used, so that `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of the table above."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The click command of one verb: `command` in the module of its name."""
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__package__}.{name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(__version__, "--version", "-V", prog_name="je-tools")
def group() -> None:
    """Forensics for write-ahead logs: Berkeley DB Java Edition, log versions 6 to 26.

    Reads .jdb files of StarRocks, Doris, OpenDJ, Oracle NoSQL, Heritrix and others. Takes no
    lock, writes nothing beside the log, works on damaged logs and beside a running engine.

    \b
    Examples:
      je-tools verify meta/bdb          is this log intact?
      je-tools summary meta/bdb         what is in it?
      je-tools dump meta/bdb --limit 5  show me
    """


# numpy's BLAS, which nothing here uses, starts a thread for each core that spins for a while.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def run(command: click.Command, arguments: list[str] | None = None) -> int:
    """Run a command and give the exit code that its outcome stands for."""
    try:
        result = command.main(args=arguments, standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else EXIT_OK
    except BrokenPipeError:
        # The reader has had enough; keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except JeToolsError as error:
        from je_tools.sinks.sections import printable

        # File names are somebody else's text.
        click.echo(f"je-tools: {printable(str(error))}", err=True)
        return error.exit_code


def main() -> None:
    """Entry point of `je-tools`."""
    warnings.formatwarning = cast(Any, _warning_line)
    sys.exit(run(group))


def db_dump() -> None:
    """Entry point of `db-dump`: the verb `dump` under the name that Berkeley DB users type."""
    warnings.formatwarning = cast(Any, _warning_line)
    command = importlib.import_module(f"{__package__}.dump").db_dump_command
    sys.exit(run(command))


def _warning_line(message: Warning | str, *_: Any, **__: Any) -> str:
    return f"je-tools: {message}\n"
