"""Groups of commands that suggest names for a misspelled one, and load their verbs lazily."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

import click


class SuggestingGroup(click.Group):
    """A click group whose error for an unknown command names similar ones, as for options."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names.

        Raises:
            click.UsageError: there is none; the text names similar ones.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            close = [repr(name) for name in get_close_matches(args[0], self.list_commands(ctx))]
            if not close:
                raise
            names = close[0] if len(close) == 1 else f"one of: {', '.join(close)}"
            raise click.UsageError(f"{error.message} (Did you mean {names}?)", ctx) from None


class VerbGroup(SuggestingGroup):
    """A group whose verbs are modules of their own, imported only on use.

    The verb `show` of the group `vlsn` is `command` in `vlsn_show.py`.
    """

    def __init__(
        self, *arguments: Any, verbs: Mapping[str, str], prefix: str = "", **options: Any
    ) -> None:
        """Make a group.

        Args:
            arguments, options: as those of `click.Group`.
            verbs: verbs and their lines in `--help`.
            prefix: beginning of the names of their modules; the name of the group if empty.
        """
        super().__init__(*arguments, **options)
        self.verbs = verbs
        self.prefix = prefix or self.name

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of their declaration."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command of a verb; None if there is no such verb."""
        if name not in self.verbs:
            return None
        module = importlib.import_module(f"{__package__}.{self.prefix}_{name}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.verbs.items()))


class DefaultGroup(VerbGroup):
    """A group that runs its verb `show` if the first argument is not the name of a verb.

    A path that has the name of a verb is given as `./NAME`.
    """

    DEFAULT = "show"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default verb before arguments that begin with something else.

        A misspelled verb is left to `resolve_command`, unless there is such a path.
        """
        verbs = self.list_commands(ctx)
        if args and args[0] not in (*verbs, *ctx.help_option_names):
            from difflib import get_close_matches

            is_path = args[0].startswith("-") or os.path.lexists(args[0])
            if is_path or not get_close_matches(args[0], verbs):
                args = [self.DEFAULT, *args]
        return super().parse_args(ctx, args)
