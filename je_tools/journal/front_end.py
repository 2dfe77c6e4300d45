"""Directories of a front end: its environment, and what its image says of the node.

A front end has its log in `bdb` and its images in `image`, side by side in its metadata directory:
`meta` for StarRocks, `doris-meta` for Doris. `image/ROLE` names the node and its role, and
`image/VERSION` the cluster. `image/image.N` is the metadata up to journal id N.

Source: Storage, BDBJEJournal, StarRocks 3.x and Apache Doris 2.x; ImageFormatVersion, StarRocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from je_tools.core.properties import PropertiesError, parse_properties
from je_tools.errors import InputError
from je_tools.log.file_names import is_jdb_name

HOMES = ("", "bdb", "meta/bdb", "doris-meta/bdb")
"""Places of the environment below a directory that the user names, in the order tried."""

_IMAGE = "image"
_IMAGE_NAME = re.compile(r"image\.([0-9]{1,18})")
_IMAGE_FOLDERS = {"": ("", "v2"), "starmgr_": ("starmgr",)}
"""Folders below `image` that hold the images of each series of journals."""

_PROPERTIES_MAX = 1 << 16


class FrontEnd(Struct, frozen=True):
    """Facts in the directories of a front end; None for those that are not there.

    Attributes:
        home: directory of the environment.
        image: directory of images; None if there is none.
        role: role of the node: FOLLOWER or OBSERVER.
        node_name: its name in the replication group.
        cluster_id: number of the cluster, as text.
        run_mode: for StarRocks, shared_nothing or shared_data.
        image_ids: journal id of the newest image of each series that has one.
        problems: files that could not be read, each as a sentence.
    """

    home: Path
    image: Path | None = None
    role: str | None = None
    node_name: str | None = None
    cluster_id: str | None = None
    run_mode: str | None = None
    image_ids: Mapping[str, int] = {}
    problems: tuple[str, ...] = ()


def find_front_end(path: Path) -> FrontEnd:
    """Find the environment of a front end, and read its ROLE and VERSION.

    Args:
        path: the environment, or a directory above it: `meta`, `doris-meta`, or one that holds
            these.

    Raises:
        InputError: the path does not exist or cannot be read.
    """
    home = _home_below(path)
    # The image lies beside the environment's name, even if that is a link to another disk.
    image = Path(os.path.abspath(home)).parent / _IMAGE  # noqa: PTH100
    if not image.is_dir():
        return FrontEnd(home)
    problems: list[str] = []
    role, version = (_properties(image / name, problems) for name in ("ROLE", "VERSION"))
    return FrontEnd(
        home=home,
        image=image,
        role=role.get("role"),
        node_name=role.get("name"),
        cluster_id=version.get("clusterId"),
        run_mode=version.get("runMode"),
        image_ids=dict(_image_ids(image)),
        problems=tuple(problems),
    )


def _home_below(path: Path) -> Path:
    """Return the environment below a directory; the directory itself if there is none."""
    try:
        for place in HOMES:
            home = path / place if place else path
            if home.is_dir() and any(is_jdb_name(name) for name in os.listdir(home)):  # noqa: PTH208
                return home
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror}") from error
    return path


def _properties(path: Path, problems: list[str]) -> dict[str, str]:
    """Return the properties in a file; none if it is absent, or unreadable, which is a problem."""
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            data = file.read(_PROPERTIES_MAX + 1)
    except OSError as error:
        problems.append(f"{path}: {error.strerror}")
        return {}
    if len(data) > _PROPERTIES_MAX:
        problems.append(f"{path}: longer than {_PROPERTIES_MAX:,} bytes")
        return {}
    try:
        return parse_properties(data)
    except PropertiesError:
        problems.append(f"{path}: not a properties file")
        return {}


def _image_ids(image: Path) -> Iterator[tuple[str, int]]:
    """Yield each series that has an image, with the journal id of its newest one."""
    for series, folders in _IMAGE_FOLDERS.items():
        found = [number for folder in folders for number in _numbers(image / folder)]
        if found:
            yield series, max(found)


def _numbers(folder: Path) -> Iterator[int]:
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return
    for name in names:
        found = _IMAGE_NAME.fullmatch(name)
        if found:
            yield int(found[1])
