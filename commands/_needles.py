"""Options that name what is searched for, shared by verbs of `je-tools erase`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from je_tools.commands._options import A_FILE, chosen_masking, option_group
from je_tools.commands._terminal import say
from je_tools.core.masking import DataMode

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.erase.proof.needles import Needle, NeedleSearch


class NeedleOptions(TypedDict):
    """Options of the command line that name needles."""

    keys: tuple[str, ...]
    key_files: tuple[Path, ...]
    matches: tuple[str, ...]
    data_mode: str


needle_options = option_group(
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="KEY",
        help="Key: text, hex:0a1b, hex:0a* (prefix), long:5485, int:7, str:name.",
    ),
    click.option(
        "--key-file",
        "key_files",
        multiple=True,
        type=A_FILE,
        metavar="FILE",
        help="File with a key on each line. Unlike --key, it does not show keys in lists of "
        "processes.",
    ),
    click.option(
        "--match",
        "matches",
        multiple=True,
        metavar="TEXT",
        help="Bytes anywhere: text, hex:0a1b, or re:REGEX for a regular expression.",
    ),
    click.option(
        "--data",
        "data_mode",
        type=click.Choice([DataMode.HASH.value, DataMode.SALTED_HASH.value]),
        default=DataMode.HASH.value,
        show_default=True,
        help="Names of needles in outputs: SHA-256, or hashes that differ in every run.",
    ),
)


"""The options that name needles, and `--data`, which names them in outputs."""


def named_needles(options: NeedleOptions) -> list[Needle]:
    """Return the needles that the options name.

    Raises:
        UsageError: one has a wrong form.
        InputError: a file cannot be read.
    """
    from je_tools.erase.proof.needle_options import file_needles, key_needles, match_needles

    return [
        *key_needles(options["keys"]),
        *(needle for path in options["key_files"] for needle in file_needles(path)),
        *match_needles(options["matches"]),
    ]


def masking_of(options: NeedleOptions) -> Masking:
    """Return the masking by which outputs name the needles."""
    return chosen_masking(options["data_mode"])


def warn_of_short(search: NeedleSearch) -> None:
    """Say that short needles are found by chance."""
    from je_tools.core.escaping import counted
    from je_tools.erase.proof.needles import SHORT_SIZE

    if search.short_count:
        say(
            f"je-tools: {counted(search.short_count, 'needle')} shorter than {SHORT_SIZE} bytes: "
            "such bytes also occur by chance, so a hit may not belong to that person"
        )
