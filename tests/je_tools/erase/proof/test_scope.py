"""Facts around the files: file systems, shared bytes, links, and deleted files."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from je_tools.erase.proof.extents import Extents, extents_of
from je_tools.erase.proof.file_systems import mount_facts, mount_of, read_mounts
from je_tools.erase.proof.file_tree import list_tree
from je_tools.erase.proof.open_files import deleted_files
from je_tools.erase.proof.scope import NOT_LOOKED_AT, find_scope

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw,data=journal
30 22 0:40 /sub /srv\040data rw,noatime - btrfs /dev/mapper/vg-a\134b rw
31 22 0:41 / /mnt rw - fuse.sshfs host:/x rw
32 22 0:42 / /run rw - tmpfs tmpfs rw
33 22 0:43 / /o rw - overlay overlay rw
34 22 0:44 / /x rw - xfs /dev/vdb rw
not a line
35 22 x:y / /bad rw - ext4 /dev/vdc rw
36 22 0:45
"""


def test_mounts_are_read_and_explained() -> None:
    mounts = read_mounts(MOUNTS)
    assert [each.fs_type for each in mounts.values()] == [
        *("ext4", "btrfs", "fuse.sshfs", "tmpfs", "overlay", "xfs")
    ]
    assert mounts[os.makedev(0, 40)].source == r"/dev/mapper/vg-a\b"
    facts = "\n".join(mount_facts(mounts.values()))
    for word in ("data=journal", "new place", "elsewhere", "swap", "lower layer", "reflinks"):
        assert word in facts


def test_the_mount_of_a_file_is_found_by_its_device_or_its_path(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    mounts = read_mounts(f"1 1 {os.major(device)}:{os.minor(device)} / / rw - zfs pool rw")
    found = mount_of(device, tmp_path, mounts)
    assert found is not None
    assert found.fs_type == "zfs"
    assert mount_of(device ^ 1, Path("/none"), {}) is None or os.path.ismount("/")


@pytest.mark.parametrize(("flags", "expected"), [(0x2001, (8192, 0)), (0x801, (0, 8192))])
def test_extents_are_summed(
    flags: int, expected: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls: the first extent of a file is not its last."""

    def ioctl(_: int, __: int, buffer: bytearray) -> int:
        (start,) = struct.unpack_from("<Q", buffer)
        now = flags if start else flags & ~1
        struct.pack_into("<I", buffer, 20, 1)
        struct.pack_into("<QQQ", buffer, 32, start, 0, 4096)
        struct.pack_into("<I", buffer, 32 + 40, now)
        return 0

    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    assert extents_of(path) == Extents(*expected)


def test_extents_that_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise OSError("not supported")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    (tmp_path / "file").touch()
    assert extents_of(tmp_path / "file") is None
    assert extents_of(tmp_path / "none") is None


def test_links_holes_and_deleted_files_are_named(tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    (home / "one").write_bytes(b"1")
    (home / "two").hardlink_to(tmp_path / "env" / "one")
    with (home / "sparse").open("wb") as file:
        file.truncate(1 << 20)
    gone = home / "gone"
    with gone.open("wb") as file:
        file.write(b"12345")
        file.flush()
        gone.unlink()
        assert (os.getpid(), 5) in deleted_files(home).open_files
        scope = find_scope(home, list_tree(home).files)
    facts = "\n".join(scope.facts)
    assert "1 file with more than one hard link" in facts
    assert "fewer blocks than bytes" in facts
    assert f"Process {os.getpid()} still has a deleted file" in facts
    assert scope.not_looked_at == NOT_LOOKED_AT
    assert not deleted_files(home).open_files
