"""Images of files of pages: mapped, and with the pages that recovery changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from je_tools.errors import StoppedError
from je_tools.formats.files.image import ImagePart
from je_tools.formats.ignite.page_image import PageImage, page_image
from je_tools.log.images import mapped

if TYPE_CHECKING:
    from je_tools.formats.ignite.page_image import ChangedPages
    from je_tools.ignite.pages.files import PageFile


@contextmanager
def mapped_image(file: PageFile, changed: ChangedPages | None = None) -> Iterator[PageImage]:
    """Map a file of pages, and check at the end that it did not change.

    Args:
        file: the file; its header is known.
        changed: pages that recovery changes; None for none.

    Raises:
        StoppedError: the file cannot be mapped, or became shorter while it was read.
    """
    if file.header is None:
        raise StoppedError(f"{file.path}: its page size is unknown")
    with mapped([ImagePart(file.path, 0, 0, file.size)]) as image:
        base = image.data[: file.size]
        yield page_image(base, file.header, file.partition, changed)
