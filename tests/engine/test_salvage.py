"""Salvage compared with the engine's own: the same records, which its DbLoad reads."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.corpus import environment
from tests.damage.running import je_tools
from tests.engine.tools import Tools

pytestmark = pytest.mark.engine

FLAGS = {"committed": "-r", "everything": "-R"}


def records_of(path: Path) -> tuple[bytes, Counter[tuple[bytes, bytes]]]:
    """Return the header of a dump text, and its records."""
    text = path.read_bytes()
    header, _, rest = text.partition(b"HEADER=END\n")
    assert rest.endswith(b"DATA=END\n")
    lines = rest.splitlines()[:-1]
    return header, Counter(zip(lines[::2], lines[1::2], strict=True))


@pytest.mark.parametrize("mode", FLAGS)
@pytest.mark.parametrize(
    "name",
    [
        "v17-basic",
        "v17-dups",
        "v17-crash-txn",
        "v15-embedded",
        "v15-ttl",
        "v8-cleaned",
        "v8-crash-txn-ckpt",
        "v6-halt",
    ],
)
def test_the_records_of_the_engines_salvage(
    name: str, mode: str, tools: Tools, tmp_path: Path
) -> None:
    """Salvage intact logs; the engine opens none in which a database was renamed."""
    home, theirs, ours = tmp_path / "env", tmp_path / "theirs", tmp_path / "ours"
    home.mkdir()
    theirs.mkdir()
    for path in environment(name).home.glob("*.jdb"):
        shutil.copyfile(path, home / path.name)
    assert je_tools("salvage", home, "--output", ours, "--mode", mode).code == 0
    tools.run("DbDump", "-h", home, FLAGS[mode], "-d", theirs)
    found = {path.name: records_of(path) for path in theirs.glob("*.dump")}
    wanted = {name: told for name, told in found.items() if not name.startswith("_je")}
    assert wanted
    told = [path for path in ours.glob("*.dump") if ".unfinished." not in path.name]
    assert {path.name: records_of(path) for path in told} == wanted


def test_salvaged_text_is_loaded(tools: Tools, tmp_path: Path) -> None:
    """Salvage a log that the engine does not open: its first file has two damaged places."""
    home, out, new = tmp_path / "env", tmp_path / "out", tmp_path / "new"
    home.mkdir()
    new.mkdir()
    for path in environment("v17-dups").home.glob("*.jdb"):
        data = bytearray(path.read_bytes())
        for start in (len(data) // 3, len(data) // 2):
            data[start : start + 2000] = bytes(2000)
        (home / path.name).write_bytes(data)
    assert je_tools("salvage", home, "--output", out, "--print").code == 3
    files = sorted(out.glob("*.dump"))
    assert files
    for path in files:
        tools.run("DbLoad", "-h", new, "-s", path.stem, "-f", path)
        text = tools.run("DbDump", "-h", new, "-s", path.stem, "-p")
        loaded = tmp_path / "loaded"
        loaded.write_bytes(text)
        assert records_of(loaded) == records_of(path)
