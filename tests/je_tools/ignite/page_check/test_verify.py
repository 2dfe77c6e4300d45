"""Verification of page stores: exactly the planted faults, and the engine's own page listings."""

from __future__ import annotations

import gzip
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from je_tools.errors import InputError
from je_tools.findings import Severity
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.pages import PAGE_SIZES, PageState, page_type_name
from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
from je_tools.ignite.page_check.judge import ADVICE, PageFileState
from je_tools.ignite.page_check.page_findings import CODES, PageFinding
from je_tools.ignite.page_check.verify import PageReport, verify_pages
from je_tools.ignite.pages.files import FileKind, page_folder
from je_tools.ignite.pages.scan import BLOCK_SIZE, Block, read_blocks
from je_tools.ignite.store import open_store
from je_tools.ignite.wal.segment_reading import copies_of
from tests.builders import ignite as build
from tests.builders import ignite_pages as pages
from tests.corpus import FIXTURES, ROOT, IgniteNode, damaged_store
from tests.engine.ignite import writable_copy
from tests.je_tools.ignite.reading import node_of

SIZE = pages.SIZE
Row = tuple[str, int, int, int, str, int, int, int, str]


def _verify(store: Path, threads: int = 2) -> PageReport:
    return verify_pages(open_store([store]), threads)


def _page_codes(store: Path) -> list[str]:
    """Return the findings but those on trees and rows."""
    codes = [each.code for each in _verify(store).findings]
    return [code for code in codes if code not in ("page-unwalked", "rows-cut-off")]


def _listed(path: Path) -> list[Row]:
    """Return the pages of a `pages.tsv.gz`."""
    found = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                file, index, type_no, version, page_id, rotated, way, size, crc, _ = line.split(
                    "\t"
                )
                numbers = (int(index), int(type_no), int(version))
                found.append((file, *numbers, page_id, int(rotated), int(way), int(size), crc))
    return sorted(found)


def _read(node: IgniteNode) -> Iterator[tuple[Row, PageState]]:
    folder = page_folder(node_of(node.store, node.node))
    for block in read_blocks(folder.files, 2):
        assert isinstance(block, Block)
        path, columns = block.file.path, block.columns
        name = str(path.relative_to(path.parents[1]))
        for n in range(len(columns)):
            row = (
                name,
                block.first + n,
                int(columns.type_no[n]),
                int(columns.version[n]),
                f"{int(columns.page_id[n]) & (1 << 64) - 1:016x}",
                int(columns.rotated[n]),
                int(columns.compression[n]),
                int(columns.compressed_size[n]),
                f"{int(columns.stored[n]):08x}",
            )
            yield row, PageState(int(columns.state[n]))


def test_pages_are_those_that_the_engine_lists(ignite_node: IgniteNode) -> None:
    path = ignite_node.truth / "pages.tsv.gz"
    read = sorted(_read(ignite_node))
    if path.exists():
        assert [row for row, _ in read] == _listed(path)
        torn = 1 if ignite_node.case == "ignite-crash-mid-checkpoint" else 0
        assert sum(state is not PageState.GOOD for _, state in read) == torn
        return
    states = Counter(state for _, state in read)
    assert ignite_node.case == "ignite-tde"
    assert set(states) == {PageState.GOOD, PageState.ENCRYPTED}


def test_an_undamaged_store_has_no_error(ignite_node: IgniteNode) -> None:
    report = _verify(ignite_node.store)
    assert report.wrong == 0
    codes = Counter(each.code for each in report.findings)
    unfinished = "page-mixed" in codes
    name = ignite_node.case
    assert unfinished == any(
        word in name for word in ("mid-checkpoint", "sql", "walpagezip", "recovery")
    )
    assert codes["page-torn"] == (name == "ignite-crash-mid-checkpoint")
    sealed = [each for each in report.files if each.state is PageFileState.ENCRYPTED]
    assert bool(sealed) == (name == "ignite-tde") == bool(codes["page-encrypted"])
    assert bool(codes["page-compressed"]) == (name == "ignite-pagecompress")


def _planted(case: Path) -> list[tuple[str, str, int | None]]:
    """Return code, file and page of the faults that `damage.txt` names."""
    text = (case / "damage.txt").read_text(encoding="utf-8")
    if zeroed := re.search(r"edit: zeroed page (\d+) of (\S+)", text):
        return [("page-zero", zeroed[2], int(zeroed[1]))]
    if lost := re.search(r"edit: removed (\S+\.bin)", text):
        return [("page-file-missing", lost[1], None)]
    if case.name == "ignite-bitflip-physical":
        # The base store has a torn page, and the log that would repair it is damaged.
        return [("page-checksum", "db/node1/cacheGroup-grp/part-2.bin", 6)]
    found = re.findall(r"edit: byte (\S+/part-\d+\.bin) (\d+) ", text)
    return [("page-checksum", file, int(at) // 4096 - 1) for file, at in found]


def test_exactly_the_planted_faults_are_found(ignite_damage: Path, tmp_path: Path) -> None:
    report = _verify(damaged_store(ignite_damage, tmp_path))
    wrong = [each for each in report.findings if each.severity is not Severity.NOTE]
    assert [(each.code, each.file, each.page) for each in wrong] == _planted(ignite_damage)
    bad = [each for each in report.files if each.advice == ADVICE[FileKind.PARTITION]]
    assert [each.file for each in bad] == [each.file for each in wrong]


def test_a_torn_page_is_damage_if_a_segment_of_recovery_is_missing(
    ignite_node: IgniteNode, tmp_path: Path
) -> None:
    if ignite_node.case != "ignite-crash-mid-checkpoint":
        return
    need = node_checkpoints(node_of(ignite_node.store), 1).need
    assert need.first is not None
    stop = max(copies.index for copies in copies_of(node_of(ignite_node.store)))
    missing = range(need.first, stop)
    assert len(missing) > 1
    for index in missing:
        store = _copied(ignite_node.store, tmp_path / str(index))
        for segment in node_of(store).segments:
            if segment.header is not None and segment.header.segment == index:
                segment.path.unlink()
        assert _page_codes(store) == ["page-mixed", "page-checksum"]


def test_a_torn_page_is_mended_from_a_recovery_file(
    ignite_node: IgniteNode, tmp_path: Path
) -> None:
    if ignite_node.case != "ignite-recovery-files":
        return
    store = _copied(ignite_node.store, tmp_path)
    (first, *_) = sorted((store / "db" / "node1" / "cp").glob("*-RECOVERY-*.bin"))
    saved = first.read_bytes()
    page_id, group_id = struct.unpack_from("<qi", saved)
    groups = [(each, cache_id(each.group)) for each in page_folder(node_of(store)).files]
    partition, index = page_id >> 32 & 0xFFFF, page_id & 0xFFFFFFFF
    (file,) = [each for each, no in groups if (no, each.partition) == (group_id, partition)]
    data = bytearray(file.path.read_bytes())
    data[4096 * (index + 1) + 50] ^= 1
    file.path.write_bytes(data)
    assert _page_codes(store) == ["page-mixed", "page-torn"]
    first.write_bytes(saved[:60] + bytes([saved[60] ^ 1]) + saved[61:])
    assert _page_codes(store) == ["page-mixed", "page-checksum"]


def _copied(store: Path, into: Path) -> Path:
    for path in store.rglob("*"):
        if path.is_file():
            target = into / path.relative_to(store)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return into


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store of made pages."""
    return pages.write_page_store(tmp_path)


def _part(store: Path, name: str = "part-0.bin") -> Path:
    return store / "db" / "node1" / "cache-first" / name


def _wrong(store: Path) -> list[PageFinding]:
    found = {threads: _verify(store, threads).findings for threads in (1, 3)}
    assert found[1] == found[3]
    return [each for each in found[1] if each.severity is not Severity.NOTE]


@pytest.mark.parametrize("order", "<>")
def test_made_stores_of_both_orders(order: str, tmp_path: Path) -> None:
    report = _verify(pages.write_page_store(tmp_path, order))
    assert report.findings == []
    assert {each.state for each in report.files} == {PageFileState.GOOD}
    counts = {each.type: each.pages for each in report.types}
    assert (counts["data"], counts["partition meta"], counts["index meta"]) == (3, 3, 1)


def test_each_kind_of_file_has_its_advice(store: Path) -> None:
    node = store / "db" / "node1"
    names = {
        FileKind.PARTITION: node / "cache-first" / "part-0.bin",
        FileKind.INDEX: node / "cache-first" / "index.bin",
        FileKind.METASTORAGE: node / "metastorage" / "part-1.bin",
    }
    for path in names.values():
        pages.damage(path, 2)
    damaged = [each for each in _verify(store).files if each.state is PageFileState.DAMAGED]
    assert {each.kind: each.advice for each in damaged} == ADVICE
    assert {each.kind: store / each.file for each in damaged} == names


def test_runs_of_damaged_pages_are_one_finding(store: Path) -> None:
    for page in (1, 2, 3, 5):
        pages.damage(_part(store), page)
    found = [(each.page, each.pages, each.offset, each.length) for each in _wrong(store)]
    assert found == [(1, 3, 2 * SIZE, 3 * SIZE), (5, 1, 6 * SIZE, SIZE)]


def test_a_run_goes_on_over_blocks(store: Path) -> None:
    count = 2 * BLOCK_SIZE // SIZE
    _part(store).write_bytes(pages.file_header() + b"\1" * (SIZE * count) + pages.page(0, 2))
    codes = [(each.code, each.page, each.pages) for each in _wrong(store)]
    assert codes == [("page-checksum", 0, count), ("page-misplaced", count, 1)]


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (lambda data: data[:-1], ["page-cut"]),
        (lambda data: data[:-SIZE] + data[-2 * SIZE : -SIZE], ["page-misplaced"]),
        (lambda data: data + bytes(2 * SIZE), ["page-unwritten"]),
        (lambda data: data[: 2 * SIZE] + bytes(SIZE) + data[3 * SIZE :], ["page-zero"]),
        (lambda data: b"", ["page-unwritten"]),
        (lambda data: data[:9], ["page-file-header"]),
        (lambda data: bytes(17) + data[17:], ["page-file-header"]),
        (lambda data: data[:8] + b"\7" + data[9:], ["page-file-header"]),
        (lambda data: data[:14] + b"\x05" + data[15:], ["page-file-header"]),
        (lambda data: data[:12] + b"\2" + data[13:], ["page-file-header"]),
        (lambda data: data + pages.page(0, 6, 99), ["page-unknown"]),
        (lambda data: data + pages.page(0, 6, version=2), ["page-unknown"]),
    ],
)  # fmt: skip
def test_each_finding(store: Path, change: object, codes: list[str]) -> None:
    path = _part(store)
    assert callable(change)
    path.write_bytes(change(path.read_bytes()))
    assert _page_codes(store) == codes


def _without_sums(data: bytes) -> bytes:
    parts = [data[at : at + SIZE] for at in range(SIZE, len(data), SIZE)]
    return data[:SIZE] + b"".join(part[:4] + bytes(4) + part[8:] for part in parts)


def test_pages_without_checksums_are_a_note_if_all_are(store: Path) -> None:
    path = _part(store)
    path.write_bytes(_without_sums(path.read_bytes()))
    (found,) = _verify(store).findings
    assert (found.code, found.pages, found.severity) == ("page-unsummed", 6, Severity.NOTE)
    path.write_bytes(path.read_bytes() + pages.page(0, 6))
    (found, other) = _wrong(store)
    assert (found.code, found.pages) == ("page-checksum", 6)
    assert (other.code, other.page) == ("data-items", 6)


def test_a_missing_file_is_found_by_the_newest_checkpoint(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    pages.write_page_store(tmp_path)
    cp = tmp_path / "db" / "node1" / "cp"
    assert _page_codes(tmp_path) == ["page-mixed"]
    payload = build.checkpoint_payload(build.CHECKPOINTS[2], {0: 20, 4: 7})
    payload = payload.replace(struct.pack("<i", 9), struct.pack("<i", cache_id("first")))
    data, offsets = build.segment(2, [("CHECKPOINT_RECORD", payload)])
    (tmp_path / "db" / "wal" / "node1" / f"{0:016}.wal").write_bytes(data)
    pointer = (2, offsets[0], len(payload) + 21)
    for kind in ("START", "END"):
        build.write_marker(tmp_path, build.CHECKPOINT_TIMES[2], build.CHECKPOINTS[2], kind, pointer)
    assert len(list(cp.iterdir())) == 6
    (found,) = _verify(tmp_path).findings
    assert (found.code, found.partition, found.expected) == ("page-file-missing", 4, "14 rows")


def test_other_files_are_named(store: Path) -> None:
    for name in ("part-dfrg-0.bin", "part-65535.bin"):
        _part(store, name).write_bytes(b"x")
    found = [(each.code, Path(each.file or "").name) for each in _verify(store).findings]
    assert found == [
        ("page-file-unread", "part-65535.bin"),
        ("page-file-unread", "part-dfrg-0.bin"),
    ]


def test_segments_alone_have_no_pages(tmp_path: Path) -> None:
    data, _ = build.segment(0, [])
    build.write_store(tmp_path, [data], [])
    with pytest.raises(InputError, match="work directory"):
        _verify(tmp_path / "db" / "wal" / "archive" / "node1")


def test_names_of_types_and_groups() -> None:
    assert page_type_name(10022) == "h2 inline leaf 23"
    assert page_type_name(40) == "type 40"
    assert cache_id("MetaStorage") == -1476359018
    assert cache_id("ignite-sys-cache") == -2100569601
    assert PAGE_SIZES == (1024, 2048, 4096, 8192, 16384)


def test_every_finding_has_its_row_in_the_page() -> None:
    page = (ROOT / "docs" / "commands" / "ignite.md").read_text(encoding="utf-8")
    for code in CODES.values():
        assert f"| `{code.name}` | {code.severity.value} |" in page
    for column in PageFinding.__struct_fields__:
        assert f"`{column}`" in page


def test_a_pipe_is_no_file_of_pages(tmp_path: Path) -> None:
    store = pages.write_page_store(tmp_path)
    os.mkfifo(store / "db" / "node1" / "cache-first" / "part-9.bin")
    report = verify_pages(open_store([store]), 1)
    assert "it is no regular file" in [each.found for each in report.findings]


@pytest.mark.parametrize("kind", [0, 2, 3])
def test_the_kind_in_the_header_of_a_file_is_checked(kind: int, tmp_path: Path) -> None:
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "store")
    with (store / "db/node1/cache-accounts/part-0.bin").open("r+b") as file:
        file.seek(12)
        file.write(bytes([kind]))
    report = verify_pages(open_store([store]), 1)
    assert "page-file-header" in {each.code for each in report.findings}
