"""Trees, records and audits of logs in a store: the same as on this host, by ranged reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from je_tools.audit import known_environments
from je_tools.audit.stake_finder import StakeFinder
from je_tools.audit.tables import ResultSource
from je_tools.btree.check.verification import TreeCheck, verify_with_trees
from je_tools.btree.key_ranges import parse_key_range
from je_tools.core.masking import SHOWN
from je_tools.errors import InputError, StoppedError
from je_tools.formats.files import remote_copies, remote_source
from je_tools.formats.files.remote_path import located
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.choices import ChosenEnd, chosen_now
from je_tools.recovery.opening import held_snapshot
from je_tools.verify.totals import Totals
from tests.builders.logs import placed_in
from tests.builders.trees import simple
from tests.corpus import FIXTURES
from tests.damage.running import je_tools
from tests.je_tools.audit.auditing import Tables, audit_here, sources, without_sources
from tests.s3_store import S3Store

LOGS = ("v8-cleaned", "v26-dbops", "v17-dups", "v15-embedded", "v26-crash-txn-ckpt")
NOW = "2026-11-25T00:00:00"
if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot

Records = dict[str | None, list[tuple[bytes | None, bytes | None]]]


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill what was not fetched with bytes that show: a hole would read as zeros."""

    def filled(number: int, size: int) -> None:
        os.pwrite(number, b"\xa5" * size, 0)

    monkeypatch.setattr(remote_copies, "_make_hole", filled)


def opened(environment: Environment) -> AbstractContextManager[Snapshot]:
    return held_snapshot(environment, Scanner(wide=True), now_ms=chosen_now(NOW))


def records_of(home: Path) -> Records:
    with held_snapshot(
        open_environment([home]), Scanner(wide=True), now_ms=chosen_now(NOW)
    ) as snapshot:
        return {
            each.name: [
                (batch.key[row], batch.data[row])
                for batch in snapshot.records(each)
                for row in range(len(batch))
            ]
            for each in snapshot.databases.values()
        }


def verified(home: Path) -> list[str]:
    environment = open_environment([home], keep_going=True)
    check = TreeCheck(False, NOW, ChosenEnd(None, None, None))
    found = verify_with_trees(
        environment, Scanner(wide=True), Totals(environment.name), check, masking=SHOWN
    )
    return [each.text().replace(str(home), "home") for each in found]


@pytest.mark.parametrize("name", LOGS)
def test_records_and_trees_are_those_of_local_files(store: S3Store, name: str) -> None:
    home = FIXTURES / name / "env"
    uri = located(store.put(home, name))
    assert records_of(uri) == records_of(home)
    assert verified(uri) == verified(home)


def forget_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a scan keep no blocks."""
    monkeypatch.setattr(remote_source, "_CACHE", remote_source._BlockCache(0))


@pytest.fixture(scope="module")
def small(server: tuple[S3Store, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Put a log of 4 MB into the store."""
    log = simple({b"%06d" % i: bytes(900) for i in range(4_000)})
    return located(server[0].put(log.write(tmp_path_factory.mktemp("small-tree")), "small-tree"))


def looked_up(snapshot: Snapshot) -> list[bytes | None]:
    (database,) = (each for each in snapshot.databases.values() if each.name == "db")
    inside = parse_key_range("", "000500..000509")
    (found,) = snapshot.records(database, inside=inside)
    return [found.key[row] for row in range(len(found))]


def test_a_lookup_fetches_a_small_part_of_a_log(
    store: S3Store, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_blocks(monkeypatch)
    with opened(open_environment([small])) as snapshot:
        store.requests.clear()
        assert looked_up(snapshot) == [b"%06d" % i for i in range(500, 510)]
        assert 0 < sum(each.size for each in store.reads) <= 256 << 10


@pytest.mark.parametrize(
    "words",
    [
        ("count", "--internal"),
        ("export", "--db", "people", "--format", "jsonl"),
        ("verify", "--tree"),
    ],
    ids=lambda words: words[0],
)
def test_commands_give_the_same(store: S3Store, words: tuple[str, ...]) -> None:
    home = FIXTURES / "v17-basic" / "env"
    uri = store.put(home, "commands")
    remote, local = je_tools(*words, uri), je_tools(*words, home)
    assert local.out or not local.code
    assert (remote.out, remote.code) == (local.out, local.code)


def test_nothing_remains_of_what_was_fetched(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    uri = located(store.put(FIXTURES / "v17-basic" / "env", "left"))
    with opened(open_environment([uri])) as snapshot:
        assert snapshot.databases
        assert not list(tmp_path.iterdir())


def test_a_full_disk_for_temporary_files(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    uri = located(store.put(FIXTURES / "v17-basic" / "env", "full"))
    with pytest.raises(StoppedError, match="set TMPDIR to another directory"):
        records_of(uri)


@pytest.mark.parametrize("fault", ["503", "cut", "403"])
def test_a_store_that_fails_while_trees_are_read(
    store: S3Store, small: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_blocks(monkeypatch)
    with pytest.raises(InputError), opened(open_environment([small])) as snapshot:  # noqa: PT012
        store.fail(fault, 10_000)
        looked_up(snapshot)


def test_a_file_that_is_replaced_while_trees_are_read(store: S3Store) -> None:
    home = FIXTURES / "v17-basic" / "env"
    uri = located(store.put(home, "replaced"))
    environment = open_environment([uri])
    with (
        pytest.raises(StoppedError, match="replaced while it was read"),
        opened(environment),
    ):
        store.put_bytes("replaced/00000000.jdb", (home / "00000000.jdb").read_bytes() + b"x")


def fleet(tmp_path: Path, nodes: Sequence[str] = ("node1", "node2")) -> Path:
    """Copy nodes of a group, a damaged log, another one and a file that is no log."""
    root = tmp_path / "fleet"
    for name in nodes:
        shutil.copytree(FIXTURES / "v26-rep-committed" / name, root / "a?b" / name)
    for name in ("v17-crash-txn", "v8-basic"):
        shutil.copytree(FIXTURES / name / "env", root / name)
    damaged = root / "v17-crash-txn" / "00000000.jdb"
    data = bytearray(damaged.read_bytes())
    data[70_000:70_100] = bytes(100)
    damaged.write_bytes(data)
    (root / "broken").mkdir()
    (root / "broken" / "00000000.jdb").write_bytes(b"no log")
    return root


def test_an_audit_of_a_store_is_that_of_local_files(store: S3Store, tmp_path: Path) -> None:
    root = fleet(tmp_path)
    uri = store.put(root, "fleet")
    local = audit_here([root], tmp_path / "local", StakeFinder())
    remote = audit_here([located(uri)], tmp_path / "remote", StakeFinder())
    size = sum(path.stat().st_size for path in root.rglob("*.jdb"))
    assert sum(each.size for each in store.reads) <= 1.3 * size
    assert len(remote["environments"]) == 5
    assert renamed(without_sources(remote), uri) == renamed(without_sources(local), str(root))


def renamed(tables: Tables, root: str) -> dict[str, list[str]]:
    return {
        name: sorted(str(row).replace(root, "ROOT") for row in rows if name != "members")
        for name, rows in tables.items()
    }


def test_an_audit_reads_only_what_has_changed_in_a_store(
    store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_blocks(monkeypatch)
    # All that was put has just changed.
    monkeypatch.setattr(known_environments, "SETTLED_NS", 0)
    root = fleet(tmp_path, nodes=())
    uri = located(store.put(root, "again"))
    first = audit_here([uri], tmp_path / "runs", StakeFinder())
    store.put_bytes(
        "again/v8-basic/00000000.jdb", (FIXTURES / "v8-basic/env/00000000.jdb").read_bytes()
    )
    store.requests.clear()
    second = audit_here([uri], tmp_path / "runs", StakeFinder())
    assert {each.path.rsplit("/", 2)[1] for each in store.reads} == {"v8-basic"}
    assert sources(second).count(ResultSource.READ) == 1
    assert len(second["environments"]) == len(first["environments"])


def test_a_file_that_has_only_grown_is_read_from_its_old_end(
    store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_source, "LARGE_BLOCK", 64 << 10)
    data = (FIXTURES / "v17-basic" / "env" / "00000000.jdb").read_bytes()
    end = next(each.start for each in placed_in(data, 17) if each.start > 250_000)
    name, uri = "grown/00000000.jdb", located("s3://logs/grown")

    def audited(content: bytes) -> list[str | None]:
        """Audit the log with this content, and compare the tables with those of a first audit."""
        store.put_bytes(name, content)
        store.requests.clear()
        monkeypatch.setattr(remote_source, "_CACHE", remote_source._BlockCache(1 << 20))
        tables = audit_here([uri], tmp_path / "runs")
        reads.append(sum(each.size for each in store.reads))
        fresh = audit_here([uri], tmp_path / f"fresh-{len(reads)}")
        assert without_sources(tables) == without_sources(fresh)
        return sources(tables)

    reads: list[int] = []
    assert audited(data[:end]) == ["read"]
    assert audited(data) == ["grown"]
    assert reads[1] < len(data) / 2
    # A store replaces a file as a whole, so it may also have another beginning.
    audited(data[:end])
    assert audited(data[:50] + b"X" + data[51:]) == ["read"]


def test_a_search_of_a_store_is_that_of_local_files(
    store: S3Store, variables: dict[str, str], tmp_path: Path
) -> None:
    root = fleet(tmp_path)
    uri = store.put(root, "searched")
    words = ("--match", "user0000001", "--engine", "local", "--format", "jsonl")
    local = je_tools("audit", "find", root, *words)
    tool = Path(sys.executable).parent / "je-tools"
    argv = [tool, "audit", "find", uri, *words]
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    remote = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == local.code == 3

    def said(rows: list[dict[str, Any]], place: str) -> list[str]:
        left_out = ("can_erase", "reason", "obstacles", "erasable_count")
        kept = ({name: row[name] for name in row if name not in left_out} for row in rows)
        return sorted(str(row).replace(place, "ROOT") for row in kept)

    assert len(local.rows) > 10
    assert said(remote, uri) == said(local.rows, str(root))
    assert not any(row["can_erase"] for row in remote if row["section"] == "traces")
    obstacles = [row["obstacles"] for row in remote if row["section"] == "environments"]
    assert any("remote" in str(each) for each in obstacles)
