"""Images of logs that must stay what they were: what is made of others is worth nothing.

A file that becomes shorter under an image reads as zeros (`formats.image`), which look like damage.
So whoever reads an image does it inside `unchanged` or `mapped`, and nothing that was made of it
gets its name before these have looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from je_tools.errors import StoppedError, UsageError
from je_tools.formats.image import Image, Part
from je_tools.formats.source import SourceError


def map_files(parts: Sequence[Part]) -> Image:
    """Files of a log as one array.

    Raises:
        StoppedError: one cannot be mapped any more, or is shorter than it is said to be.
    """
    try:
        return Image(parts)
    except SourceError as error:
        raise StoppedError(str(error)) from error


def check_image(image: Image) -> None:
    """Make sure that all files are as long as they were, and that all could be read.

    Raises:
        StoppedError: one is not, or its device failed, so that what was told may be wrong.
    """
    path = image.lost()
    if path is not None:
        raise StoppedError(
            f"{path}: became shorter while it was read, or its device failed; what was written "
            "so far is not to be trusted"
        )


@contextmanager
def unchanged(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` when the body has ended, and where it fails, since zeros may be the reason.

    Raises:
        StoppedError: what `check` raises, in the place of what the body does.
    """
    try:
        yield
    except (UsageError, BrokenPipeError):
        raise
    except Exception:
        check()
        raise
    check()


@contextmanager
def mapped(parts: Sequence[Part]) -> Iterator[Image]:
    """Files of a log as one array, for as long as they stay what they are.

    Raises:
        StoppedError: one cannot be mapped, or is not what it was when all has been read.
    """
    image = map_files(parts)
    with unchanged(lambda: check_image(image)):
        yield image
