"""A real node of Ignite as the judge: it finds the recorded rows, and says why it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.ignite.recovery.plan import StartOutcome, plan_recovery
from je_tools.ignite.store import open_store
from tests.corpus import FIXTURES, IgniteNode, corpus, damaged_store, ignite_nodes
from tests.engine.ignite import IgniteEngine, recorded_rows, writable_copy
from tests.je_tools.dumped import je_tools
from tests.je_tools.ignite.recovery.test_lost_pages import LOST, lose_end
from tests.je_tools.ignite.recovery.test_unlike import UNLIKE, unlike
from tests.je_tools.ignite.repairs.operations import digests
from tests.truth.contents import Refusal

# TDE needs a keystore, and compressed pages a module that is not fetched.
OTHERS = {"ignite-tde", "ignite-pagecompress"}
NODES = [each for each in ignite_nodes() if each.case not in OTHERS]
REFUSALS = {
    "ignite-bitflip": ("start", "Failed to read WAL record at position: 380580"),
    "ignite-marker-empty": ("start", "Failed to read checkpoint pointer from marker file"),
    "ignite-marker-foreign": ("halt", ""),
}

STARTS = 8
"""Starts of a node that keeps recovery files: 2.18.0 halts in one of three on an intact store."""


def read_by(ignite: IgniteEngine, case: IgniteNode, folder: Path) -> list[str] | Refusal:
    keeps_files = case.case == "ignite-recovery-files"
    options = "recovery-files" if keeps_files else ""
    for number in range(STARTS if keeps_files else 1):
        work = writable_copy(case.store, folder / f"work-{number}")
        found = ignite.rows(work, case.node, options=options)
        if not isinstance(found, Refusal) or found.stage != "halt":
            break
    return found


@pytest.mark.engine
@pytest.mark.parametrize("case", NODES, ids=lambda case: f"{case.case}/{case.node}")
def test_a_node_finds_the_recorded_rows(
    ignite: IgniteEngine, case: IgniteNode, tmp_path: Path
) -> None:
    truth = case.store.parent
    own = truth / case.node
    recorded = (own if own.is_dir() else truth) / "records.tsv.gz"
    assert read_by(ignite, case, tmp_path) == recorded_rows(recorded)


@pytest.mark.engine
@pytest.mark.parametrize("is_zeros", [False, True], ids=["cut", "zeros"])
@pytest.mark.parametrize("name", ["cache-atom/part-0.bin", "metastorage/part-1.bin"])
@pytest.mark.skipif(corpus() is None, reason="only the corpus has a log that begins late")
def test_a_node_refuses_pages_that_are_lost_at_the_end_of_a_file(
    ignite: IgniteEngine, name: str, is_zeros: bool, tmp_path: Path
) -> None:
    whole = corpus()
    assert whole is not None
    work = writable_copy(whole / "ignite-compacted" / "store", tmp_path / "work")
    lose_end(work / "db" / "node1" / name, 4, is_zeros=is_zeros)
    (plan,) = plan_recovery(open_store([work]), 1)
    assert plan.outcome is StartOutcome.REFUSED
    assert isinstance(ignite.rows(work), Refusal)


@pytest.mark.engine
@pytest.mark.parametrize(("name", "pages", "is_zeros", "outcome"), LOST[-6:-2])
def test_a_node_on_files_that_lost_their_last_pages(
    ignite: IgniteEngine,
    name: str,
    pages: int,
    is_zeros: bool,
    outcome: StartOutcome,
    tmp_path: Path,
) -> None:
    """It reads pages after the end of a file as zeros; it restores zeroed pages from the log."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    lose_end(store / "db" / "node1" / name, pages, is_zeros=is_zeros)
    found = ignite.rows(store)
    assert isinstance(found, list) == (outcome is StartOutcome.STARTS)
    rows = recorded_rows(FIXTURES / "ignite-killed" / "records.tsv.gz")
    kept = found if isinstance(found, list) else rows
    assert [row for row in kept if not row.startswith("ignite-sys-cache")] == rows


@pytest.mark.engine
@pytest.mark.parametrize("name", REFUSALS if corpus() else [])
def test_a_node_says_why_it_refuses(ignite: IgniteEngine, name: str, tmp_path: Path) -> None:
    whole = corpus()
    assert whole is not None
    stage, text = REFUSALS[name]
    found = ignite.rows(damaged_store(whole / name, tmp_path))
    assert isinstance(found, Refusal)
    assert found.stage == stage
    assert text in found.message


@pytest.mark.engine
def test_a_node_starts_on_the_fixtures_as_predicted(ignite: IgniteEngine, tmp_path: Path) -> None:
    rows = recorded_rows(FIXTURES / "ignite-killed" / "records.tsv.gz")
    whole = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "whole")
    assert "node1 starts" in je_tools("ignite", "recover", whole).err
    found = ignite.rows(whole)
    assert isinstance(found, list)
    assert [row for row in found if not row.startswith("ignite-sys-cache")] == rows
    damaged = damaged_store(FIXTURES / "ignite-page-damaged", tmp_path)
    assert "node1 does not start" in je_tools("ignite", "recover", damaged).err
    refused = ignite.rows(writable_copy(damaged, tmp_path / "refused"))
    assert isinstance(refused, Refusal)
    assert je_tools("ignite", "recover", damaged, "--apply").code == 0
    found = ignite.rows(damaged)
    assert isinstance(found, list)
    assert [row for row in found if not row.startswith("ignite-sys-cache")] == rows


@pytest.mark.engine
@pytest.mark.parametrize(
    "name",
    [
        "1900000000000-no-id-START",
        "5-no-id-END",
        "99999999999999999999-00000000-0000-0001-0000-000000000002-START",
    ],
)
def test_a_node_starts_once_a_marker_with_a_bad_name_is_set_aside(
    ignite: IgniteEngine, name: str, tmp_path: Path
) -> None:
    base = FIXTURES / "ignite-killed" / "store"
    damaged, mended = (writable_copy(base, tmp_path / each) for each in ("damaged", "mended"))
    for store in (damaged, mended):
        (store / "db" / "node1" / "cp" / f"{name}.bin").write_bytes(bytes(16))
        (store / "db" / "node1" / "lock").touch()
    assert isinstance(ignite.rows(damaged), Refusal)
    assert "node1 does not start" in je_tools("ignite", "recover", mended).err
    before = digests(mended)
    assert je_tools("ignite", "recover", mended, "--apply").code == 0
    assert je_tools("ignite", "undo", mended, "--apply").code == 0
    assert digests(mended) == before
    assert je_tools("ignite", "recover", mended, "--apply").code == 0
    found = ignite.rows(mended)
    assert isinstance(found, list)
    rows = recorded_rows(FIXTURES / "ignite-killed" / "records.tsv.gz")
    assert [row for row in found if not row.startswith("ignite-sys-cache")] == rows


@pytest.mark.engine
@pytest.mark.parametrize(
    ("number", "content", "starts"),
    [(0, b"", False), (0, bytes(99), False), (1, b"", True), (1, b"no header".ljust(99), True)],
)
def test_a_node_passes_over_archived_files_without_a_header(
    ignite: IgniteEngine, number: int, content: bytes, starts: bool, tmp_path: Path
) -> None:
    """It uses headers and not names, until it archives a segment of such a name."""
    base = FIXTURES / "ignite-killed" / "store"
    path = Path("db/wal/archive/node1", f"{number:016}.wal")
    damaged, mended = (writable_copy(base, tmp_path / each) for each in ("damaged", "mended"))
    for store in (damaged, mended):
        (store / path).write_bytes(content)
    assert isinstance(ignite.rows(damaged), list) == starts
    assert je_tools("ignite", "recover", mended, "--apply").code == 0
    found = ignite.rows(mended)
    assert isinstance(found, list)
    rows = recorded_rows(FIXTURES / "ignite-killed" / "records.tsv.gz")
    assert [row for row in found if not row.startswith("ignite-sys-cache")] == rows


@pytest.mark.engine
def test_a_node_needs_the_first_file_of_the_ring(ignite: IgniteEngine, tmp_path: Path) -> None:
    """Without it, the node moves the segment that it wrote last to the archive."""
    base = FIXTURES / "ignite-killed" / "store"
    damaged, mended = (writable_copy(base, tmp_path / each) for each in ("damaged", "mended"))
    for store in (damaged, mended):
        (store / "db/wal/node1" / f"{0:016}.wal").unlink()
    ignite.rows(damaged)
    # It halts when one of its threads misses the segment, which can be after it has answered.
    ignite.stop()
    assert (damaged / "db/wal/archive/node1" / f"{1:016}.wal").exists()
    assert je_tools("ignite", "recover", mended, "--apply").code == 0
    found = ignite.rows(mended)
    assert isinstance(found, list)
    rows = recorded_rows(FIXTURES / "ignite-killed" / "records.tsv.gz")
    assert [row for row in found if not row.startswith("ignite-sys-cache")] == rows


@pytest.mark.engine
@pytest.mark.parametrize(
    ("segment", "at", "starts"), [(0, 0, True), (1, 0, False), (1, 10, True), (1, 26, True)]
)
@pytest.mark.skipif(corpus() is None, reason="only the corpus has a segment that nothing reads")
def test_a_node_reads_headers_of_segments_that_it_needs_only(
    ignite: IgniteEngine, segment: int, at: int, starts: bool, tmp_path: Path
) -> None:
    """It checks the type, but not the offset or the checksum."""
    whole = corpus()
    assert whole is not None
    case = whole / "ignite-crash"
    store = writable_copy(case / "store", tmp_path / "work")
    path = store / "db/wal/archive/node1" / f"{segment:016}.wal"
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
    found = ignite.rows(store)
    assert isinstance(found, list) == starts
    assert not starts or found == recorded_rows(case / "records.tsv.gz")


@pytest.mark.engine
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cache-accounts/", None),
        ("cache-accounts/", b"\xac\xed\0\6"),
        ("cacheGroup-web/carts", None),
    ],
)
def test_a_node_without_the_configuration_of_a_cache(
    ignite: IgniteEngine, name: str, content: bytes | None, tmp_path: Path
) -> None:
    """It starts without the cache; the rows of a cache in a group stay in the group's pages."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    path = store / f"db/node1/{name}cache_data.dat"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    found = ignite.rows(store)
    assert isinstance(found, list) == (content is None)
    cache = name.partition("/")[2] or "accounts"
    assert content is not None or not any(row.startswith(cache) for row in found)


@pytest.mark.engine
@pytest.mark.parametrize(("name", "index", "type_no", "outcome"), UNLIKE[1:4])
def test_a_node_on_pages_of_another_type(
    ignite: IgniteEngine,
    name: str,
    index: int,
    type_no: int,
    outcome: StartOutcome,
    tmp_path: Path,
) -> None:
    """It notices only some of them, and takes a partition with such a first page for a new one.

    The last one halts the JVM, and the next test would wait for a new one.
    """
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    unlike(store / "db/node1/cache-accounts" / name, index, type_no)
    found = ignite.rows(store)
    rows = recorded_rows(FIXTURES / "ignite-killed" / "records.tsv.gz")
    if index == 7:
        assert isinstance(found, Refusal)
        assert (found.stage, "Unknown page type: 36" in found.message) == ("halt", True)
        return
    assert isinstance(found, list)
    kept = [row for row in found if not row.startswith("ignite-sys-cache")]
    assert (kept == rows) == (outcome is not StartOutcome.LOSES)
    assert set(kept) <= set(rows)
