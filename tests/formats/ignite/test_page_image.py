"""Pages of images: those of files, unpacked, and those that were changed in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from je_tools.formats.ignite.page_image import (
    ChangedPages,
    PageFault,
    page_image,
    read_image_pages,
)
from je_tools.formats.ignite.pages import PageFileHeader, read_file_header
from je_tools.ignite.pages.files import page_folder
from tests.builders import ignite_pages as pages
from tests.corpus import IgniteNode
from tests.je_tools.ignite.reading import node_of

SIZE = pages.SIZE


def _header(data: bytes) -> PageFileHeader:
    header = read_file_header(data)
    assert isinstance(header, PageFileHeader)
    return header


def test_every_page_of_a_store_is_read(ignite_node: IgniteNode) -> None:
    faults: dict[str, int] = {}
    for file in page_folder(node_of(ignite_node.store, ignite_node.node)).files:
        base = np.fromfile(file.path, np.uint8)
        assert file.header is not None
        image = page_image(base, file.header, file.partition)
        assert image.page_count == file.pages
        found, bad = read_image_pages(image, np.arange(file.pages))
        for index in np.flatnonzero(bad).tolist():
            name = PageFault(int(bad[index])).name
            faults[name] = faults.get(name, 0) + 1
        if ignite_node.case != "ignite-pagecompress":
            start = file.header.size
            stored = base[start : start + found.size].reshape(found.shape)
            assert np.array_equal(found[bad == 0], stored[bad == 0])
    torn = {"CHECKSUM": 1} if ignite_node.case == "ignite-crash-mid-checkpoint" else {}
    if ignite_node.case == "ignite-tde":
        assert list(faults) == ["ENCRYPTED"]
    else:
        assert faults == torn


@pytest.mark.parametrize("order", ["<", ">"])
def test_changed_pages_hide_those_of_the_file(tmp_path: Path, order: str) -> None:
    data = pages.page_file(0, [14, 15, 2], order)
    changed = ChangedPages.plain(np.array([1, 4]), np.full((2, SIZE), 7, np.uint8))
    image = page_image(np.frombuffer(data, np.uint8), _header(data), 0, changed)
    found, bad = read_image_pages(image, np.arange(6))
    assert bad.tolist() == [0, 0, 0, PageFault.ABSENT, 0, PageFault.ABSENT]
    assert found[0].tobytes() == data[SIZE : 2 * SIZE]
    assert (found[[1, 4]] == 7).all()
    assert image.page_count == 5


def test_changed_pages_without_places_are_refused() -> None:
    data = pages.page_file(0, [14])
    changed = ChangedPages.plain(np.array([1, 4]), np.zeros((1, SIZE), np.uint8))
    image = page_image(np.frombuffer(data, np.uint8), _header(data), 0, changed)
    with pytest.raises(ValueError, match="a page for each"):
        read_image_pages(image, np.arange(1))
