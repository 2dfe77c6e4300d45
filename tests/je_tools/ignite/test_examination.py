"""Examinations of whole stores: what is read, and how often."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from je_tools.formats.ignite.unpacked import Unpacked
from je_tools.ignite import segment_files
from je_tools.ignite.examination import examine_store
from je_tools.ignite.recovery.rebuilding import rebuilt_files
from je_tools.ignite.store import open_store
from tests.corpus import FIXTURES
from tests.engine.ignite import writable_copy


def test_a_packed_segment_is_unpacked_for_the_log_and_for_checkpoints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A ZIP may unpack to far more bytes than it has."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "store")
    archive = store / "db/wal/archive/node1"
    header = (archive / f"{0:016}.wal").read_bytes()[:29]
    with zipfile.ZipFile(archive / f"{2:016}.wal.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("2.wal", header + bytes(1 << 20))
    unpacked: list[Path] = []

    def unpack(path: Path) -> Unpacked:
        unpacked.append(path)
        return Unpacked(path)

    monkeypatch.setattr(segment_files, "Unpacked", unpack)
    examine_store(open_store([store]), 1, rebuilt=rebuilt_files)
    assert len(unpacked) == 2
