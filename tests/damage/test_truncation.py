"""A log cut off at each of its bytes: torn ends, losses, and exit codes."""

from __future__ import annotations

from pathlib import Path

from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals
from tests.builders.logs import LogFile, write_log
from tests.damage.expected import Said, said
from tests.damage.reading import Seen, read_log
from tests.damage.running import je_tools
from tests.damage.small import small_log

FILE_HEADER_SIZE = 38

THREADS_EVERY, ALONE_EVERY = 8, 4
"""Two threads read one in so many lengths of a log; one in so many is also read as a single file,
beside those around the end of an entry."""


def verified(path: Path, size: int) -> tuple[int, list[Said]]:
    """Return the exit code and findings of `verify`; the command itself runs for some sizes."""
    if size % 50 == 0:
        outcome = je_tools("verify", path, "--format", "jsonl")
        return outcome.code, [said(row) for row in outcome.rows]
    environment = open_environment([path])
    totals = Totals("")
    found = verify(environment, Scanner(threads=1), totals)
    rows = [said(each.row()) for each in found]
    return 3 if totals.errors else 0, rows


def read_at(home: Path, size: int) -> list[Seen]:
    return read_log(home, threads=2 if size % THREADS_EVERY == 0 else 1)


def torn(file: LogFile, size: int) -> list[Said]:
    """Return the findings expected of a last file cut to `size` bytes."""
    if size == 0:
        return [Said("torn-tail", "note", 0, 0, None)]
    if size < FILE_HEADER_SIZE:
        return [Said("torn-tail", "error", 0, size, None)]
    start = max(place.start for place in file.placed if place.start < size)
    if any(place.stop == size for place in file.placed):
        return []
    code = "torn-tail" if any(file.data[start:size]) else "zero-tail"
    return [Said(code, "note", start, size - start, None)]


def test_each_length_of_a_last_file(tmp_path: Path) -> None:
    """Anything that a dying writer leaves is a note, in a directory and as a single file.

    It does not leave a part of a file's header.
    """
    files = small_log(17)
    home = write_log(tmp_path / "env", files)
    last = files[-1]
    path = home / last.name
    near = {place.stop + more for place in last.placed for more in (-1, 0, 1)}
    for size in range(len(last.data)):
        path.write_bytes(last.data[:size])
        code = 3 if 0 < size < FILE_HEADER_SIZE else 0
        assert verified(home, size) == (code, torn(last, size)), size
        first, second = read_at(home, size)
        second.assert_covers_every_byte()
        assert first.good == files[0].placed
        assert second.good == [place for place in last.placed if place.stop <= size]
        if size > FILE_HEADER_SIZE and (size in near or size % ALONE_EVERY == 0):
            assert verified(path, size) == (0, torn(last, size)), size


def test_each_length_of_a_file_that_another_follows(tmp_path: Path) -> None:
    """The cut is damage; between two entries, the next file's header reveals it."""
    files = small_log(17)
    home = write_log(tmp_path / "env", files)
    file = files[0]
    for size in range(len(file.data)):
        (home / file.name).write_bytes(file.data[:size])
        assert verified(home, size) == (3, cut(file, size)), size
        first, second = read_at(home, size)
        first.assert_covers_every_byte()
        assert first.good == [place for place in file.placed if place.stop <= size]
        assert second.good == files[1].placed


def cut(file: LogFile, size: int) -> list[Said]:
    """Return the findings expected of a file cut to `size` bytes that others follow."""
    if size < FILE_HEADER_SIZE:
        return [Said("bad-file-header", "error", 0, size, None)]
    if any(place.stop == size for place in file.placed):
        return [Said("truncated-file", "error", size, None, None)]
    start = max(place.start for place in file.placed if place.start < size)
    return [Said("truncated-file", "error", start, size - start, None)]
