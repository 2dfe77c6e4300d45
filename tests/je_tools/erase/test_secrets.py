"""A person's data are in no byte of a directory after their erasure, wherever they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from je_tools.formats.je.entry.entries import decode_entry
from tests.builders.secrets import (
    DATABASE,
    LIVE,
    OTHER,
    PREFIX,
    SUFFIX,
    places,
    secret,
    secrets_log,
)
from tests.damage.running import je_tools
from tests.je_tools.erase.erasing import copy_of, log_bytes
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of
from tests.truth.headers import NAMES, walk_bytes


@pytest.fixture(params=[15, 17, 26])
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def home(version: int, tmp_path: Path) -> Path:
    return secrets_log(tmp_path / "env", version)


def bytes_of(home: Path) -> bytes:
    """Return the bytes and the names of all files below a directory."""
    paths = sorted(home.rglob("*"))
    return b"\0".join(
        str(path.relative_to(home)).encode() + (path.read_bytes() if path.is_file() else b"")
        for path in paths
    )


def found_in(home: Path) -> set[str]:
    """Return the places whose secrets are found; a secret cut by a key prefix, by its rest."""
    data = bytes_of(home)
    parts = {where: secret(where) for where in places(26)}
    behind = ("key", "prefixed", "slot", "old-prefixed")
    parts |= {where: where.encode() + SUFFIX for where in behind}
    return {where for where, part in parts.items() if part in data}


def test_everything_is_planted(version: int, home: Path) -> None:
    assert found_in(home) == set(places(version))
    assert codes_of(snapshot_of(home)) == []
    assert contents_of(snapshot_of(home))[DATABASE.decode()] == [
        (secret("key"), b"1"),
        (secret("prefixed"), b"2"),
        (b"em", secret("embedded")),
        (b"k1", secret("value")),
        OTHER,
    ]


def test_a_run_leaves_nothing_but_live_records(home: Path) -> None:
    records = contents_of(snapshot_of(home))
    done = je_tools(
        *("erase", "run", home, "--checkpoint-first", "--apply"),
        *("--rewrite", DATABASE.decode()),
    )
    assert done.code == 0, done.err
    assert found_in(home) == set(LIVE)
    assert contents_of(snapshot_of(home)) == records
    assert codes_of(snapshot_of(home)) == []


def test_the_erasure_of_a_person_leaves_nothing(home: Path) -> None:
    match = ("--match", PREFIX.decode())
    done = je_tools("erase", "subject", home, *match, "--delete-live", "--apply")
    assert done.code == 0, done.err
    data = bytes_of(home)
    assert PREFIX not in data
    assert SUFFIX not in data
    assert contents_of(snapshot_of(home)) == {DATABASE.decode(): [OTHER]}
    assert codes_of(snapshot_of(home)) == []
    verified = je_tools("verify", "--tree", home)
    assert verified.code == 0, verified.out
    assert je_tools("erase", "prove", home, *match).code == 0


@pytest.mark.parametrize("where", ["slot", "routing"])
def test_what_only_nodes_in_use_have_goes_with_their_tree(where: str, home: Path) -> None:
    """No record is deleted, since none is the person's."""
    records = contents_of(snapshot_of(home))
    match = ("--match", secret(where).decode())
    done = je_tools("erase", "subject", home, *match, "--delete-live", "--apply")
    assert done.code == 0, done.err
    assert found_in(home) == set(LIVE)
    assert contents_of(snapshot_of(home)) == records


def uncommitted(home: Path) -> Iterator[bytes]:
    """Yield keys and values of transactions that have no Commit."""
    versions: dict[int, list[bytes]] = {}
    for name, data in log_bytes(home).items():
        for header in walk_bytes(data, int(name[:8], 16)):
            name_of_type = NAMES[header.type_no]
            start = header.lsn & 0xFFFFFFFF
            entry = decode_entry(data[start : start + header.size], header.version).fields
            if name_of_type == "Commit":
                versions.pop(entry["txn_id"], None)
            elif name_of_type in ("INS_LN_TX", "UPD_LN_TX", "DEL_LN_TX"):
                versions.setdefault(entry["txn_id"], []).extend(
                    (entry["key"], entry["data"] or b"")
                )
    return (bytes(each) for values in versions.values() for each in values)


@pytest.mark.parametrize("name", ["v17-crash-txn", "v26-crash-txn-ckpt"])
def test_a_transaction_of_an_engine_that_never_ended(name: str, tmp_path: Path) -> None:
    """The checkpoint undoes it; its keys and values are in no tree, and then in no byte."""
    home = copy_of(name, tmp_path / "env")
    before = contents_of(snapshot_of(home))
    kept = b"\0".join(each for records in before.values() for record in records for each in record)
    gone = {each for each in uncommitted(home) if len(each) >= 6 and each not in kept}
    assert len(gone) > 30
    old = bytes_of(home)
    assert all(each in old for each in gone)
    rewritten = [word for db in before for word in ("--rewrite", db)]
    done = je_tools("erase", "run", home, "--checkpoint-first", "--apply", *rewritten)
    assert done.code == 0, done.err
    new = bytes_of(home)
    assert not [each for each in gone if each in new]
    assert contents_of(snapshot_of(home)) == before
