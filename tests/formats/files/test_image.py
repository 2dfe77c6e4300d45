"""Log files as one array: positions, LSNs, and files that change while they are mapped."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.formats.files.image import NOWHERE, Image, ImagePart
from je_tools.formats.files.source import SourceChangedError
from tests.corpus import ROOT

PAGE = 4096


def parts_of(folder: Path, sizes: dict[int, int]) -> list[ImagePart]:
    """Write files whose bytes depend on file and offset, and return them as parts."""
    found = []
    for file_no, size in sizes.items():
        path = folder / f"{file_no:08x}.jdb"
        path.write_bytes(content(file_no, size))
        found.append(ImagePart(path, file_no, 17, size))
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
    # Zeros fill the rest of the page.
    assert not image.data[100:PAGE].any()


def test_every_place_has_its_lsn_and_the_reverse(image: Image) -> None:
    for file_no, start, size in zip(image.file_nos, image.starts, SIZES.values(), strict=True):
        lsns = np.int64(file_no) << 32 | np.arange(size)
        positions, files = image.places(lsns)
        assert positions.tolist() == list(range(start, start + size))
        assert (image.file_nos[files] == file_no).all()
        assert image.lsns(positions).tolist() == lsns.tolist()


def test_places_that_are_not(image: Image) -> None:
    """LSNs after the end of a file, in missing or empty files, and invalid LSNs."""
    lsns = [100, PAGE, 1 << 32 | PAGE, 2 << 32, 3 << 32, 4 << 32, 8 << 32, -1, -(1 << 63)]
    lsns += [(1 << 63) - 1, 0xFFFFFFFF, 0x7FFFFFFF << 32 | 5 * PAGE - 1]
    positions, _ = image.places(np.array(lsns, np.int64))
    assert (positions == NOWHERE).all()


def test_a_file_counts_up_to_where_it_is_said_to_end(tmp_path: Path) -> None:
    (part,) = parts_of(tmp_path, {0: 3 * PAGE})
    image = Image([ImagePart(part.path, 0, 17, PAGE + 10)])
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
    with pytest.raises(SourceChangedError, match="shrank from 101 to 100 bytes while the log was"):
        Image([ImagePart(part.path, 0, 17, 101)])
    with pytest.raises(SourceChangedError, match="none: removed while it was read"):
        Image([ImagePart(tmp_path / "none", 0, 17, 1)])
    image = Image([part])
    part.path.write_bytes(b"")
    assert image.lost() == part.path


def test_a_file_of_which_nobody_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = parts_of(tmp_path, {0: 100})
    image = Image([part])
    for number, lost in ((errno.ENOTDIR, None), (errno.ESTALE, part.path)):

        def stat(path: Path, number: int = number) -> None:
            raise OSError(number, os.strerror(number), str(path))

        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", stat)
            assert image.lost() == lost


TRUNCATED = """
import os, sys, threading
from pathlib import Path
import numpy as np
from je_tools.formats import _native
from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.je.log.entry_rows import Rows

page = 4096
paths = [Path(name) for name in sys.argv[2:]]
image = Image([ImagePart(path, i, 17, path.stat().st_size) for i, path in enumerate(paths)])
whole = Image([ImagePart(paths[0], 0, 17, paths[0].stat().st_size)])
os.truncate(paths[1], page)
assert not image.has_lost_page
start = int(image.starts[1])


def read():
    if sys.argv[1] == "numpy":
        print(int(image.data[start:].sum() > 0))
    elif sys.argv[1] == "plain":
        print(sum(memoryview(image.data)[start + 3 * page: start + 3 * page + 9]))
    else:
        one = lambda kind, value=0: np.array([value], kind)
        rows = Rows(
            0, 17, image.data, 0, one("u4", start + 3 * page), one("u4"), one("u4"),
            one("i4", 100), one("i8"), one("u1", 1), one("u1"), one("u1", 14), one("u1", 1),
        )
        programs = np.zeros(256, "i8"), np.ones(256, "i8"), np.array([[0, 0, 0]])
        print(_native.tally(rows, programs)[1].tolist())


thread = threading.Thread(target=read)
thread.start()
thread.join()
assert image.has_lost_page and image.lost() == paths[1]
assert not whole.has_lost_page and whole.lost() is None
print(image.data[:4].tolist(), image.data[start + 2 * page :].any())
"""


@pytest.mark.parametrize("way", ["numpy", "plain", "native"])
def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path, way: str) -> None:
    """Lost bytes read as zeros and the image reports it, in any thread, with or without the GIL."""
    parts = parts_of(tmp_path, {0: 3 * PAGE, 1: 8 * PAGE})
    done = ended(TRUNCATED, way, *(part.path for part in parts))
    assert done.returncode == 0, done.stderr
    first = content(0, 4)
    assert done.stdout.splitlines()[-1] == f"{list(first)} False"


def ended(text: str, *arguments: object, options: tuple[str, ...] = ()) -> Any:
    """Run a Python program that may die, and return the finished process."""
    command = [sys.executable, *options, "-c", text, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=1000
    )


MANY_PAGES = """
import os, sys
from pathlib import Path
from je_tools.formats.files.image import Image, ImagePart

page, count = 4096, 70_000
path = Path(sys.argv[1])
parts = []
for number in range(3):
    each = path / f"{number:08x}.jdb"
    with each.open("wb") as file:
        file.truncate(count * page)
        file.seek(0)
        file.write(b"x")
    parts.append(ImagePart(each, number, 17, count * page))
image = Image(parts)
os.truncate(parts[1].path, 0)
backwards = range(count - 2, -2, -2)
for at in backwards if sys.argv[2] == "backwards" else range(0, count, 2):
    assert image.data[(count + at) * page] == 0
assert image.lost() == parts[1].path
maps = sum(1 for _ in open("/proc/self/maps"))
assert maps < 2000, maps
assert image.data[0] == image.data[2 * count * page] == ord("x")
"""


@pytest.mark.parametrize("way", ["forwards", "backwards"])
def test_more_pages_than_a_process_may_have_maps(tmp_path: Path, way: str) -> None:
    """The lost part of a file becomes one map, so 35,000 faults do not exceed the limit of maps."""
    done = ended(MANY_PAGES, tmp_path, way)
    assert done.returncode == 0, done.stderr


NO_ROOM = """
import os, resource, sys
from pathlib import Path
from je_tools.formats.files.image import Image, ImagePart

path = Path(sys.argv[1])
image = Image([ImagePart(path, 0, 17, path.stat().st_size)])
resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
os.truncate(path, 0)
image.data[5]
"""


def test_no_room_for_zeros_ends_the_process(tmp_path: Path) -> None:
    (part,) = parts_of(tmp_path, {0: 3 * PAGE})
    assert ended(NO_ROOM, part.path).returncode == -signal.SIGBUS


ELSEWHERE = """
import mmap, os, sys
from pathlib import Path
from je_tools.formats.files.image import Image, ImagePart

path, other = Path(sys.argv[1]), Path(sys.argv[2])
image = Image([ImagePart(path, 0, 17, path.stat().st_size)])
with other.open("rb") as file:
    own = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
os.truncate(path, 0)
os.truncate(other, 0)
assert image.data[5] == 0 and image.has_lost_page
print("alive", flush=True)
own[5]
"""


def test_maps_of_others_end_the_process_as_ever(tmp_path: Path) -> None:
    paths = [part.path for part in parts_of(tmp_path, {0: 3 * PAGE, 1: 3 * PAGE})]
    done = ended(ELSEWHERE, *paths)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "alive\n"), done.stderr


def test_a_handler_of_the_program_gets_what_is_not_ours(tmp_path: Path) -> None:
    """This holds for a handler in C, too, which Python does not know."""
    paths = [part.path for part in parts_of(tmp_path, {0: 3 * PAGE, 1: 3 * PAGE})]
    done = ended(ELSEWHERE, *paths, options=("-X", "faulthandler"))
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "alive\n"), done.stderr
    assert "Fatal Python error: Bus error" in done.stderr


LATER = """
import faulthandler, os, sys
from pathlib import Path
from je_tools.formats.files.image import Image, ImagePart

path = Path(sys.argv[1])
image = Image([ImagePart(path, 0, 17, path.stat().st_size)])
faulthandler.enable()
if sys.argv[2] == "again":
    again = Image([ImagePart(path, 0, 17, path.stat().st_size)])
os.truncate(path, 0)
if sys.argv[2] == "sent":
    os.kill(os.getpid(), 7)
image.data[5]
print("alive", flush=True)
os.kill(os.getpid(), 7)
print("more than alive")
"""


@pytest.mark.parametrize("way", ["once", "again", "sent"])
def test_a_handler_that_the_program_sets_later(tmp_path: Path, way: str) -> None:
    """It gets every SIGBUS until the next map is made; a SIGBUS that was sent is never ours."""
    (part,) = parts_of(tmp_path, {0: 3 * PAGE})
    done = ended(LATER, part.path, way)
    assert done.returncode == -signal.SIGBUS
    assert done.stdout == ("alive\n" if way == "again" else "")
    assert "Fatal Python error: Bus error" in done.stderr


SENT = """
import os, sys
from pathlib import Path
from je_tools.formats.files.image import Image, ImagePart

path = Path(sys.argv[1])
image = Image([ImagePart(path, 0, 17, path.stat().st_size)])
os.kill(os.getpid(), 7)
print("alive")
"""


def test_a_signal_that_was_sent_ends_the_process(tmp_path: Path) -> None:
    (part,) = parts_of(tmp_path, {0: 3 * PAGE})
    done = ended(SENT, part.path)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "")
