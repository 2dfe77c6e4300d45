"""Arguments of `explain`: topics, LSNs, places in stores, or the text of a message."""

from __future__ import annotations

import re
from collections.abc import Sequence

from je_tools.explain.topics import KINDS, topics_called

STANDARD_INPUT = "-"
"""The argument for standard input."""

# A class or a reason of EnvironmentFailureReason, as it is pasted alone.
_MESSAGE_WORD = re.compile(r"[\w.$]+(?:Exception|Error):?|[A-Z]{2,}(?:_[A-Z]+)+:?")


def requests_of(arguments: Sequence[str]) -> list[str]:
    """Return the arguments, or all of them as one text if that was pasted without quotes.

    They are one text if at least two of them are words that can be nothing else.
    """
    if any(map(_is_topic, arguments)) or any(len(each.split()) > 1 for each in arguments):
        return list(arguments)
    plain = [each for each in arguments if not _is_place(each) and not topics_called(each)]
    return [" ".join(arguments)] if len(plain) > 1 else list(arguments)


def is_message(argument: str) -> bool:
    """Return whether an argument is the text of a message, and neither a topic nor an LSN."""
    if argument == STANDARD_INPUT:
        return True
    if _is_topic(argument):
        return False
    return len(argument.split()) > 1 or _MESSAGE_WORD.fullmatch(argument.strip()) is not None


def _is_topic(argument: str) -> bool:
    kind, colon, _ = argument.partition(":")
    return bool(colon) and kind.lower() in KINDS


def _is_place(argument: str) -> bool:
    return argument[:1].isdigit() or "/" in argument or ":" in argument
