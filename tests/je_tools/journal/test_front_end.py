"""Directories of front ends, and their ROLE and VERSION compared with the group."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from je_tools.journal.front_end import FrontEnd, find_front_end
from je_tools.journal.group_facts import GroupFacts, compare_with_group
from je_tools.journal.report import JournalReport, report_journals
from tests.je_tools.journal.front_ends import front_end_log, values_of
from tests.je_tools.snapshots import snapshot_of

ROLE = "#Fri Nov 20 10:00:00 UTC 2026\nrole=FOLLOWER\nhostType=IP\nname=fe1_9010_1760000000001\n"
VERSION = "#Fri Nov 20 10:00:00 UTC 2026\nclusterId=1234567\ntoken=do-not-show\n"
FE1 = "fe1_9010_1760000000001"


def make_front_end(
    meta: Path,
    *,
    role: str | None = ROLE,
    version: str | None = VERSION,
    group: dict[str, str] | None = None,
    group_name: str = "PALO_JOURNAL_GROUP",
) -> Path:
    """Make the directories of a front end, and return that of its metadata."""
    known = {FE1: "electable", "fe2_9010_1": "electable"} if group is None else group
    made = front_end_log({"1": values_of(range(1, 5))}, group=known, group_name=group_name)
    made.log.write(meta / "bdb")
    image = meta / "image"
    image.mkdir()
    if role is not None:
        (image / "ROLE").write_text(role)
    if version is not None:
        (image / "VERSION").write_text(version)
    return meta


def reported(path: Path) -> JournalReport:
    front_end = find_front_end(path)
    return report_journals(snapshot_of(front_end.home), front_end)


@pytest.mark.parametrize("name", ["meta", "doris-meta"])
def test_the_environment_is_found_from_each_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = make_front_end(tmp_path / "fe" / name)
    places = [tmp_path / "fe", meta, meta / "bdb"]
    found = [find_front_end(place) for place in places]
    assert {each.home for each in found} == {meta / "bdb"}
    assert {each.image for each in found} == {meta / "image"}
    monkeypatch.chdir(meta / "bdb")
    here = find_front_end(Path())
    assert (here.home, here.image, here.role) == (Path(), meta / "image", "FOLLOWER")
    monkeypatch.chdir(meta)
    assert find_front_end(Path()).home == Path("bdb")


def test_the_image_is_beside_the_name_of_the_environment(tmp_path: Path) -> None:
    """Some put the log on another disk, behind a link."""
    meta = make_front_end(tmp_path / "meta")
    (tmp_path / "disk").mkdir()
    (meta / "bdb").rename(tmp_path / "disk" / "bdb")
    (meta / "bdb").symlink_to(tmp_path / "disk" / "bdb")
    assert find_front_end(meta).image == meta / "image"
    assert find_front_end(tmp_path / "disk" / "bdb").image is None


def test_a_directory_without_a_log_is_returned_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "meta" / "bdb").mkdir(parents=True)
    assert find_front_end(tmp_path / "meta") == FrontEnd(tmp_path / "meta")
    assert find_front_end(tmp_path / "nothing") == FrontEnd(tmp_path / "nothing")


def test_what_the_image_says(tmp_path: Path) -> None:
    meta = make_front_end(tmp_path / "meta")
    names = ("image.12", "image.3", "image.ckpt", "image.12.part", "checksum.40", "v2/image.14")
    for name in names:
        path = meta / "image" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    (meta / "image" / "starmgr").mkdir()
    (meta / "image" / "starmgr" / "image.7").write_bytes(b"")
    report = reported(meta)
    found = report.front_end
    assert (found.role, found.node_name, found.cluster_id) == ("FOLLOWER", FE1, "1234567")
    assert found.image_ids == {"": 14, "starmgr_": 7}
    assert (report.differences, found.problems) == ([], ())
    assert "do-not-show" not in repr(report)


@pytest.mark.parametrize(
    ("role", "group", "found"),
    [
        (ROLE, {"fe2": "electable"}, "no member of this name; members: fe2"),
        (ROLE, {FE1: "removed"}, "a removed node of this name; members: none"),
        (ROLE, {FE1: "secondary"}, "a member that is secondary"),
        (
            ROLE.replace("FOLLOWER", "OBSERVER"),
            {FE1: "electable"},
            f"an electable member of this name; members: {FE1}",
        ),
        (ROLE.replace("FOLLOWER", "KING"), {FE1: "electable"}, "role 'KING'"),
    ],
)
def test_a_role_that_does_not_fit_the_group(
    role: str, group: dict[str, str], found: str, tmp_path: Path
) -> None:
    meta = make_front_end(tmp_path / "meta", role=role, group=group)
    (difference,) = reported(meta).differences
    assert (difference.found, difference.is_harmless) == (found, False)


@pytest.mark.parametrize("group", [{}, {FE1: "secondary"}, {FE1: "removed"}])
def test_an_observer_is_not_in_the_group(group: dict[str, str], tmp_path: Path) -> None:
    role = ROLE.replace("FOLLOWER", "OBSERVER")
    meta = make_front_end(tmp_path / "meta", role=role, group=group)
    assert reported(meta).differences == []


def test_other_differences(tmp_path: Path) -> None:
    version = VERSION.replace("1234567", "-x")
    meta = make_front_end(tmp_path / "a", version=version, group_name="OTHER")
    first, second = reported(meta).differences
    assert (first.found, first.is_harmless) == ("the group OTHER", True)
    assert second.found == "clusterId '-x'"
    meta = make_front_end(tmp_path / "b", role=ROLE.replace("name=", "nom="), version=None)
    assert reported(meta).differences == []
    (difference,) = compare_with_group(
        FrontEnd(meta, role="FOLLOWER", node_name=FE1), GroupFacts(None, {}, exists=False)
    )
    assert difference.found == "no group database"


def test_files_that_are_no_properties(tmp_path: Path) -> None:
    meta = make_front_end(tmp_path / "meta", role="role=\\u12", version="x" * 70_000)
    first, second = reported(meta).differences
    assert first.found == f"{meta / 'image' / 'ROLE'}: not a properties file"
    assert second.found == f"{meta / 'image' / 'VERSION'}: longer than 65,536 bytes"


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    meta = make_front_end(tmp_path / "meta", role=None)
    os.mkfifo(meta / "image" / "ROLE")
    assert find_front_end(meta).role is None
