"""A group of commands that suggests the name meant by a misspelled one."""

from __future__ import annotations

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
