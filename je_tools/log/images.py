"""Images of logs, and the check that no file changed: results from a changed one are worthless.

A file that shrinks under an image reads as zeros (`formats.files.image`), which look like damage.
So images are read inside `unchanged` or `mapped`, and no output gets its name before their check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from je_tools.errors import StoppedError, UsageError
from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.files.remote_path import RemotePath
from je_tools.formats.files.source import SourceError
from je_tools.log.source_errors import translated_errors


def map_files(parts: Sequence[ImagePart]) -> Image:
    """Map files of a log as one array.

    Raises:
        StoppedError: one cannot be mapped any more, or is shorter than stated.
    """
    copied = None
    if any(isinstance(part.path, RemotePath) for part in parts):
        from je_tools.formats.files.remote_copies import RemoteCopies

        copied = RemoteCopies
    try:
        return Image(parts, copied)
    except SourceError as error:
        raise StoppedError(str(error)) from error


def check_image(image: Image) -> None:
    """Check that all files still have their length, and that all could be read.

    Raises:
        StoppedError: one is shorter, or its device failed, so results may be wrong; or a remote
            file has changed.
        InputError: the store of a remote file does not say whether it has changed.
    """
    with translated_errors():
        path = image.lost()
    if path is not None:
        raise StoppedError(
            f"{path}: became shorter while it was read, or its device failed; do not trust what "
            "was written so far"
        )


@contextmanager
def unchanged(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` when the body ends or fails: zeros may be the reason why it fails.

    Raises:
        StoppedError: raised by `check`, in place of the body's error; or a remote file has changed.
        InputError: a remote file cannot be read.
    """
    try:
        with translated_errors():
            yield
    except (UsageError, BrokenPipeError):
        raise
    except Exception:
        check()
        raise
    check()


@contextmanager
def mapped(parts: Sequence[ImagePart]) -> Iterator[Image]:
    """Map files of a log as one array, and check at the end that they did not change.

    Raises:
        StoppedError: one cannot be mapped, or has changed when all has been read.
    """
    image = map_files(parts)
    with unchanged(lambda: check_image(image)):
        yield image
