"""First pages of partitions: the counters that a file has of its own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.errors import StoppedError
from je_tools.formats.files.source import Source, SourceChangedError, SourceError
from je_tools.formats.ignite.page_image import page_image, read_image_pages
from je_tools.formats.ignite.partition_meta import PartitionMeta, read_partition_meta

if TYPE_CHECKING:
    from je_tools.ignite.pages.files import PageFile


def read_first_page(file: PageFile) -> PartitionMeta | None:
    """Return the fields of the first page of a partition; None if it cannot be read.

    Raises:
        StoppedError: the file shrank, vanished or was replaced while it was read.
    """
    header = file.header
    if header is None:
        return None
    try:
        with Source(file.path) as source:
            start = source.read(0, min(header.size + header.page_size, source.size)).copy()
    except SourceChangedError as error:
        raise StoppedError(str(error)) from error
    except SourceError:
        return None
    image = page_image(start, header, file.partition)
    if not image.page_count:
        return None
    pages, faults = read_image_pages(image, np.zeros(1, np.int64))
    return None if faults[0] else read_partition_meta(pages[0].tobytes(), is_big=header.is_big)
