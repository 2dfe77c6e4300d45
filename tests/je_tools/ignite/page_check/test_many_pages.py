"""Files of pages that are made to cost much: damage in turns, and holes of gigabytes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from je_tools.errors import StoppedError
from je_tools.findings import Severity
from je_tools.formats.ignite.page_image import read_image_pages
from je_tools.formats.ignite.pages import PageState, page_rules, read_pages, zero_pages
from je_tools.ignite.page_check.verify import verify_pages
from je_tools.ignite.pages import scan, walk
from je_tools.ignite.pages.files import page_folder
from je_tools.ignite.pages.images import mapped_image
from je_tools.ignite.recovery.plan import plan_recovery
from je_tools.ignite.segment_files import inspect_segment
from je_tools.ignite.store import open_store
from je_tools.ignite.wal.segment_reading import read_segment
from tests.builders import ignite as build
from tests.builders import ignite_pages as pages


def test_good_and_bad_pages_in_turns_are_a_bounded_number_of_findings(tmp_path: Path) -> None:
    store = pages.write_page_store(tmp_path)
    path = store / "db/node1/cache-first/part-0.bin"
    good = pages.page(0, 6)
    bad = good[:-1] + bytes([good[-1] ^ 1])
    made = (pages.page(0, no, 6, body=b"") if no % 2 else bad for no in range(6, 606))
    path.write_bytes(path.read_bytes() + b"".join(made))
    report = verify_pages(open_store([store]), 1, trees=False)
    found = [each for each in report.findings if each.code == "page-checksum"]
    assert [each.page for each in found] == [*range(6, 206, 2), None]
    assert (found[-1].found, found[-1].pages) == ("200 more runs of pages", 200)
    (verdict,) = (each for each in report.files if each.file.endswith("part-0.bin"))
    assert verdict.bad == 300
    (build.write_store(tmp_path, [], []) / "db/node1/cp").mkdir(exist_ok=True)
    (plan,) = plan_recovery(open_store([store]), 1)
    texts = [each.found or "" for each in plan.findings if each.file and "part-0" in each.file]
    assert len(texts) == 101
    assert texts[-1].startswith("200 more runs of pages, 200 pages; ")


def test_holes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = pages.write_page_store(tmp_path)
    path = store / "db/node1/cache-first/part-0.bin"
    whole = verify_pages(open_store([store]), 1)
    os.truncate(path, 8 << 30)
    read: list[int] = []
    reader = scan.read_file_pages

    def counted(source: Any, start: int, stop: int, *rest: Any) -> Any:
        read.append(stop - start)
        return reader(source, start, stop, *rest)

    monkeypatch.setattr(scan, "read_file_pages", counted)
    report = verify_pages(open_store([store]), 1)
    assert sum(read) < 4 * scan.BLOCK_SIZE
    found = {each.code: each for each in report.findings if each not in whole.findings}
    assert set(found) == {"page-unwritten", "page-unwalked"}
    assert found["page-unwritten"].pages == (8 << 30) // pages.SIZE - 7
    assert "most of it is a hole" in (found["page-unwalked"].found or "")
    assert found["page-unwalked"].severity is Severity.WARNING


def test_a_file_is_walked_if_the_file_system_does_not_say_what_it_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pages.write_page_store(tmp_path) / "db/node1/cache-first/part-0.bin"
    os.truncate(path, 1 << 20)
    files = page_folder(open_store([tmp_path]).nodes[0]).files
    (file,) = (each for each in files if each.path == path)
    monkeypatch.setattr(walk, "_HOLLOW_PAGES", 1)
    for blocks in (1, 0):
        monkeypatch.setattr(Path, "stat", lambda _, found=blocks: SimpleNamespace(st_blocks=found))
        assert walk._is_hollow(file) == bool(blocks)


def test_pages_of_a_hole_are_those_of_zeros(tmp_path: Path) -> None:
    (file, *_) = page_folder(open_store([pages.write_page_store(tmp_path)]).nodes[0]).files
    assert file.header is not None
    zeros = np.zeros(5 * file.header.page_size, np.uint8)
    expected = read_pages(zeros, page_rules(file.header, 3), 7)
    found = zero_pages(5, file.header.page_size)
    for name in found.__struct_fields__:
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert set(found.state.tolist()) == {PageState.ZERO}


def test_a_file_of_pages_that_is_cut_between_two_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file, *_) = page_folder(open_store([pages.write_page_store(tmp_path)]).nodes[0]).files
    assert file.header is not None
    page_size = file.header.page_size
    monkeypatch.setattr(scan, "BLOCK_SIZE", page_size)
    blocks = scan.read_blocks([file], 1)
    next(blocks)
    os.truncate(file.path, file.header.size + page_size)

    with pytest.raises(StoppedError, match="shrank"):
        list(blocks)


def test_a_file_of_pages_with_a_hole_at_its_end_that_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = pages.write_page_store(tmp_path)
    (file, *_) = page_folder(open_store([store]).nodes[0]).files
    os.truncate(file.path, file.size + (1 << 20))
    (file, *_) = page_folder(open_store([store]).nodes[0]).files
    monkeypatch.setattr(scan, "BLOCK_SIZE", 1 << 19)
    blocks = scan.read_blocks([file], 1)
    next(blocks)
    shutil.copy(file.path, tmp_path / "other")
    (tmp_path / "other").replace(file.path)

    with pytest.raises(StoppedError, match="replaced"):
        list(blocks)


def test_a_file_of_pages_that_is_cut_while_it_is_mapped(tmp_path: Path) -> None:
    (file, *_) = page_folder(open_store([pages.write_page_store(tmp_path)]).nodes[0]).files

    def read() -> None:
        with mapped_image(file) as image:
            os.truncate(file.path, 100)
            read_image_pages(image, np.arange(3))

    with pytest.raises(StoppedError, match="became shorter"):
        read()


def test_segments_that_are_cut_while_they_are_read(tmp_path: Path) -> None:
    record = ("DATA_RECORD_V2", build.data_payload(b"key", bytes(9 << 20)))
    data, _ = build.segment(0, [record])
    path = build.write_store(tmp_path, [data], []) / "db/wal/archive/node1" / f"{0:016}.wal"

    def read() -> None:
        with read_segment(inspect_segment(path)) as (rows, _):
            os.truncate(path, 1 << 20)
            list(rows)

    with pytest.raises(StoppedError, match="shrank"):
        read()
