"""Files of a log as one array: places, LSNs, and files that are not what they were."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from je_tools.formats.image import NOWHERE, Image, Part
from tests.corpus import ROOT

PAGE = 4096


def parts_of(folder: Path, sizes: dict[int, int]) -> list[Part]:
    """Files of these sizes, of bytes that tell the file and the place."""
    found = []
    for file_no, size in sizes.items():
        path = folder / f"{file_no:08x}.jdb"
        path.write_bytes(content(file_no, size))
        found.append(Part(path, file_no, 17, size))
    return found


def content(file_no: int, size: int) -> bytes:
    return bytes((file_no * 31 + at * 7 + (at >> 8)) & 0xFF for at in range(size))


SIZES = {0: 100, 1: PAGE, 3: 0, 7: PAGE + 1, 0x7FFFFFFF: 5 * PAGE - 1}


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(parts_of(tmp_path, dict(reversed(SIZES.items()))))


def test_files_lie_in_the_order_of_their_numbers(image: Image) -> None:
    assert image.file_nos.tolist() == list(SIZES)
    assert (image.stops - image.starts).tolist() == list(SIZES.values())
    for file_no, start, stop in zip(image.file_nos, image.starts, image.stops, strict=True):
        assert image.data[start:stop].tobytes() == content(int(file_no), int(stop - start))
    assert not image.data.flags.writeable
    # Up to the next page there are zeros.
    assert not image.data[100:PAGE].any()


def test_every_place_has_its_lsn_and_the_reverse(image: Image) -> None:
    for file_no, start, size in zip(image.file_nos, image.starts, SIZES.values(), strict=True):
        lsns = np.int64(file_no) << 32 | np.arange(size)
        positions, files = image.places(lsns)
        assert positions.tolist() == list(range(start, start + size))
        assert (image.file_nos[files] == file_no).all()
        assert image.lsns(positions).tolist() == lsns.tolist()


def test_places_that_are_not(image: Image) -> None:
    """Behind the end of a file, in a file that is missing or empty, and what is no place."""
    lsns = [100, PAGE, 1 << 32 | PAGE, 2 << 32, 3 << 32, 4 << 32, 8 << 32, -1, -(1 << 63)]
    lsns += [(1 << 63) - 1, 0xFFFFFFFF, 0x7FFFFFFF << 32 | 5 * PAGE - 1]
    positions, _ = image.places(np.array(lsns, np.int64))
    assert (positions == NOWHERE).all()


def test_a_file_counts_up_to_where_it_is_said_to_end(tmp_path: Path) -> None:
    (part,) = parts_of(tmp_path, {0: 3 * PAGE})
    image = Image([Part(part.path, 0, 17, PAGE + 10)])
    assert len(image.data) == 2 * PAGE
    assert image.places(np.array([PAGE + 9, PAGE + 10]))[0].tolist() == [PAGE + 9, NOWHERE]


def test_a_log_without_files() -> None:
    image = Image([])
    assert len(image.data) == 0
    assert image.places(np.array([0, -1]))[0].tolist() == [NOWHERE, NOWHERE]
    assert image.lost() is None


def test_what_is_mapped_stays_when_it_is_deleted(tmp_path: Path) -> None:
    parts = parts_of(tmp_path, {0: 2 * PAGE})
    image = Image(parts)
    data = image.data
    parts[0].path.unlink()
    assert image.lost() is None
    del image
    assert data.tobytes() == content(0, 2 * PAGE)


def test_a_file_that_is_shorter_than_it_was(tmp_path: Path) -> None:
    (part,) = parts_of(tmp_path, {0: 100})
    with pytest.raises(OSError, match="shrank while the log was read"):
        Image([Part(part.path, 0, 17, 101)])
    with pytest.raises(FileNotFoundError):
        Image([Part(tmp_path / "none", 0, 17, 1)])
    image = Image([part])
    part.path.write_bytes(b"")
    assert image.lost() == part.path


TRUNCATED = """
import os, sys, threading
from pathlib import Path
import numpy as np
from je_tools.formats.adler import adler32
from je_tools.formats.image import Image, Part
from je_tools.formats.kernels import compiled

page = 4096
paths = [Path(name) for name in sys.argv[2:]]
image = Image([Part(path, i, 17, path.stat().st_size) for i, path in enumerate(paths)])
whole = Image([Part(paths[0], 0, 17, paths[0].stat().st_size)])
os.truncate(paths[1], page)
assert not image.is_torn
size = int(image.stops[1] - image.starts[1])
start = int(image.starts[1])


def read():
    if sys.argv[1] == "numpy":
        print(int(image.data[start:].sum() > 0))
    elif sys.argv[1] == "plain":
        print(sum(memoryview(image.data)[start + 3 * page: start + 3 * page + 9]))
    else:
        print(compiled(adler32)(image.data, start, start + size, 255) > 0)


thread = threading.Thread(target=read)
thread.start()
thread.join()
assert image.is_torn and image.lost() == paths[1]
assert not whole.is_torn and whole.lost() is None
print(image.data[:4].tolist(), image.data[start + 2 * page :].any())
"""


@pytest.mark.parametrize("way", ["numpy", "plain", "compiled"])
def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path, way: str) -> None:
    """What is gone is zeros, and the image knows; in any thread, with Python's lock or without."""
    parts = parts_of(tmp_path, {0: 3 * PAGE, 1: 8 * PAGE})
    command = [sys.executable, "-c", TRUNCATED, way, *(part.path for part in parts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first = content(0, 4)
    assert done.stdout.splitlines()[-1] == f"{list(first)} False"


ELSEWHERE = """
import mmap, os, sys
from pathlib import Path
from je_tools.formats.image import Image, Part

path = Path(sys.argv[1])
image = Image([Part(path, 0, 17, path.stat().st_size)])
with path.open("rb") as file:
    own = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
os.truncate(path, 0)
own[5]
"""


def test_maps_of_others_end_the_process_as_ever(tmp_path: Path) -> None:
    (part,) = parts_of(tmp_path, {0: 3 * PAGE})
    command = [sys.executable, "-c", ELSEWHERE, part.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == -7, done.stderr
