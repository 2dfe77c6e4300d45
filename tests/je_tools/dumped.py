"""Output of `je-tools dump`, run in this process, and its rows as plain values."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import click

from je_tools.commands.main import group, run
from tests.corpus import FIXTURES

Row = dict[str, Any]


class Done(NamedTuple):
    """Output and exit code of a command."""

    code: int
    out: bytes
    err: str


NOTHING = "je-tools: no entry matches\n"


def je_tools(*arguments: str | Path, command: click.Command = group) -> Done:
    """Run a command and capture its output, stdout as bytes."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(command, [str(argument) for argument in arguments])
        out.flush()
    return Done(code, out.buffer.getvalue(), err.getvalue())  # type: ignore[attr-defined]


POINTER = "`je-tools verify` reports all"


def dump(home: Path, *arguments: str | Path) -> bytes:
    """Return the output of `dump` for a log with no damage other than planted restore markers."""
    done = je_tools("dump", home, *arguments)
    told = done.err.removesuffix(NOTHING).splitlines()
    others = [line for line in told if "restore-marker at" not in line and POINTER not in line]
    assert (done.code, others) == (3 if told else 0, []), (arguments, done.err)
    return done.out


def strict_json(line: bytes) -> Any:
    """Parse one JSON text strictly: ASCII only, no NaN or Infinity, no repeated name."""

    def refuse(constant: str) -> None:
        raise ValueError(f"not JSON: {constant}")

    def unique(pairs: list[tuple[str, Any]]) -> Row:
        row = dict(pairs)
        assert len(row) == len(pairs), pairs
        return row

    text = line.decode("ascii")
    value = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    if "\\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate would raise
    return value


def rows_of(out: bytes) -> list[Row]:
    """Return the rows of JSON lines."""
    return [strict_json(line) for line in out.splitlines()]


def dump_rows(home: Path, *arguments: str | Path) -> list[Row]:
    """Return the rows of a dump."""
    return rows_of(dump(home, "--format", "jsonl", *arguments))


@functools.cache
def _whole_dump(name: str) -> bytes:
    return dump(FIXTURES / name, "--format", "jsonl")


@functools.cache
def all_rows(name: str) -> list[Row]:
    """Return every entry of an environment of fixtures/, named like `NAME/env` or `NAME/node1`."""
    return rows_of(_whole_dump(name))


@functools.cache
def all_lines(name: str) -> dict[str, bytes]:
    """Return the JSON line of every entry, by LSN."""
    lines = _whole_dump(name).splitlines(keepends=True)
    return {row["lsn"]: line for row, line in zip(all_rows(name), lines, strict=True)}


@functools.cache
def items(name: str) -> dict[str, bytes]:
    """Return the bytes after the header of every entry, by LSN."""
    files = {int(path.stem, 16): path.read_bytes() for path in (FIXTURES / name).glob("*.jdb")}
    found = {}
    for row in all_rows(name):
        start = row["offset"] + row["header_size"]
        found[row["lsn"]] = files[row["file_no"]][start : start + row["item_size"]]
    return found


Keep = Callable[[Row], bool]
