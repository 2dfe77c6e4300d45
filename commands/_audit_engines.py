"""The choice between Spark and this machine for the work of `je-tools audit`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

import click

from je_tools.commands._options import option_group
from je_tools.errors import UsageError

if TYPE_CHECKING:
    from je_tools.audit.engines import EngineChoice


LOCAL = "local"


class EngineOptions(TypedDict):
    """Options of the command line that choose the engine."""

    engine: str
    master: str | None
    settings: tuple[str, ...]


engine_options = option_group(
    click.option(
        "--engine",
        type=click.Choice(["spark", LOCAL]),
        default="spark",
        show_default=True,
        help="Run on Spark, or in processes of this machine, without Java.",
    ),
    click.option(
        "--master",
        metavar="URL",
        help="Spark cluster: spark://host:7077 or yarn.  [default: all cores of this machine]",
    ),
    click.option(
        "--conf",
        "settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="A Spark setting, such as spark.executor.memory=2g. Can be repeated.",
    ),
)


"""The options that choose the engine."""


def chosen_engine(options: EngineOptions) -> EngineChoice:
    """Return the engine that the options choose.

    Raises:
        UsageError: an option of Spark is given for an engine without it, or has a wrong form.
    """
    from je_tools.audit.engines import EngineChoice

    settings = _settings(options["settings"])
    if options["engine"] != LOCAL:
        return EngineChoice(False, options["master"], settings)
    for name, value in (("--master", options["master"]), ("--conf", settings)):
        if value:
            raise UsageError(f"{name}: --engine local runs without Spark")
    return EngineChoice(True)


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(f"--conf {text}: expected spark.NAME=VALUE")
        if name == "spark.master":
            raise UsageError(f"--conf {text}: give the master with --master")
        settings[name] = value
    return settings


def silence_py4j() -> None:
    """Keep Py4J from logging at length to the root logger on an interrupt."""
    logging.getLogger().addHandler(logging.NullHandler())


@contextmanager
def shown_step(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show a line on the terminal during a step, with a bar once its tasks are known."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
