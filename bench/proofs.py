"""CPU time of `erase prove`, beside the programs that only read or search bytes.

Wall-clock time would depend on what else the machine does; the claim is about bytes per second of
one core. `cat` is the floor for reading, and `grep -c -F` the usual search for one text.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Command, cpu_seconds
from bench.report import Row

NEEDLES = (1, 32, 1_000)
"""Numbers of needles; 1,000 are searched for as hashes too."""

AT_LEAST, OF_HASHED = 1e9, 0.5e9
"""Bytes per CPU second that the search must reach: for needles, and for hashed ones."""


def proof_rows(je_tools: str, home: Path, size: int, runs: int) -> Iterator[Row]:
    """Yield the rows of a log of `size` bytes, which should be cached."""
    files = [str(path) for path in sorted(home.glob("*.jdb"))]
    peers = {
        "cat": Command([_found("cat"), *files]),
        "grep -c -F": Command([_found("grep"), "-c", "-F", "nobody-000000@example.org", *files]),
    }
    shown = ", ".join(
        f"{name} {cpu_seconds(command, runs, (0, 1)):.2f} s" for name, command in peers.items()
    )
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        for count in NEEDLES:
            keys.write_text("".join(f"nobody-{i:06}@example.org\n" for i in range(count)))
            yield _row(
                f"{count:,} needle{'s' * (count > 1)}",
                je_tools,
                home,
                size,
                runs,
                "--key-file",
                keys,
                shown,
            )
        hashed = Path(folder) / "needles"
        words = ["--key-file", str(keys), "--write-needles", str(hashed)]
        cpu_seconds(Command([je_tools, "erase", "prove", str(home), *words]), 1, (0,))
        what = f"{NEEDLES[-1]:,} hashed needles"
        yield _row(what, je_tools, home, size, runs, "--needles", hashed, shown)


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise SystemExit(f"no {program} on this machine")
    return path


def _row(
    what: str, je_tools: str, home: Path, size: int, runs: int, option: str, file: Path, shown: str
) -> Row:
    argv = [je_tools, "erase", "prove", str(home), "--threads", "1", option, str(file)]
    seconds = cpu_seconds(Command(argv), runs, (0, 3))
    rate = size / seconds
    at_least = OF_HASHED if option == "--needles" else AT_LEAST
    return Row(
        f"erase prove, {what}, CPU time",
        home.name,
        f"{seconds:.2f} s, {rate / 1e9:.2f} GB/s",
        shown,
        "",
        f"≥ {at_least / 1e9:g} GB/s",
        rate >= at_least,
    )
