"""`--data`: no key and no data of an application is in any output of any command that masks.

Names of databases stay readable (docs/decisions/masking.md).
"""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pyarrow.parquet as pq
import pytest

from je_tools.audit.known_files import ROWS_NAME
from je_tools.commands.main import COMMANDS, group
from tests.builders.fleets import Fleet, report, write_tables
from tests.builders.planted import write_planted
from tests.corpus import FIXTURES
from tests.damage.running import je_tools
from tests.je_tools.audit.auditing import age, audit_here
from tests.je_tools.core.test_masking import leaks

MODES = {"cut": "hide", "hurt": "length"}
"""The mode with which each log is read; the other one is an exhaustive case.

All modes mask in the same place; tests/je_tools/core/test_masking.py has all."""


class Log(NamedTuple):
    """A damaged log, its whole original, a key and its database, and pieces of keys and data.

    `places` has LSNs of entries of each type, and of the damage.
    """

    home: Path
    whole: Path
    key: str
    database: str
    secrets: re.Pattern[bytes]
    places: tuple[str, ...]


@pytest.fixture(scope="module", params=MODES)
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Return a log with lost Commits, or one with damaged records and nodes of duplicates."""
    is_cut = request.param == "cut"
    whole = FIXTURES / ("v17-crash-txn" if is_cut else "v17-dups") / "env"
    home = Path(shutil.copytree(whole, tmp_path_factory.mktemp("leaks") / "env"))
    with (home / "00000000.jdb").open("r+b") as file:
        for place in (150_000,) if is_cut else (100_000, 200_000):
            file.seek(place)
            file.write(bytes(2 if is_cut else 3000))
    places = tuple(places_of(home))
    if is_cut:
        secrets = pattern_of(b"user00", b'"rev":')
        return Log(home, whole, "user00000001", "people", secrets, places)
    return Log(home, whole, "hex:*", "visits", pattern_of(b"user00", b"city3"), places)


def places_of(home: Path) -> Iterator[str]:
    """Yield the LSN of the last entry of each type of a log, and those of its damage."""
    rows = [row for row in je_tools("dump", home, "--format", "jsonl").rows if "type" in row]
    yield from {row["type"]: row["lsn"] for row in rows}.values()
    for row in je_tools("verify", home, "--format", "jsonl").rows[:3]:
        yield f"0x{row['file_no']:x}/0x{row['offset']:x}"


def pattern_of(*pieces: bytes) -> re.Pattern[bytes]:
    """Return a pattern of pieces of keys and data, in several encodings."""
    forms = {re.escape(piece) for piece in pieces}
    forms |= {piece.hex().encode() for piece in pieces}
    # JSON escapes quotes.
    forms |= {re.escape(piece.replace(b'"', b'\\"')) for piece in pieces}
    for piece in pieces:
        # A piece has three forms in base64, by its place.
        for before in range(3):
            text = base64.b64encode(bytes(before) + piece)
            last = (before + len(piece)) // 3 * 4
            forms.add(re.escape(text[4 if before else 0 : last]))
    return re.compile(b"|".join(sorted(form for form in forms if len(form) > 4)))


def variants(verb: str, log: Log, folder: Path) -> list[tuple[object, ...]]:
    """Return the options with which a command is run; those with `--output` make new paths."""
    to_file, findings = ("--output", folder / "out"), ("--findings", folder / "findings")
    of_key = (log.key, "--db", log.database)
    return {
        "doctor": [(), ("--html", folder / "page.html"), ("--tree", *to_file)],
        "dump": [(), to_file, ("--parts", *to_file), ("--grep", "user"), ("--type", "BIN")],
        "verify": [("--tree",), ("--tree", "--all", *to_file, "--stats", folder / "stats")],
        "recover": [findings, ("--apply", "--accept-loss", "--force", *to_file)],
        "databases": [("--internal", *findings, *to_file)],
        "count": [findings, ("--internal", *to_file)],
        "export": [
            ("--db", log.database),
            ("--all", "--internal", *to_file, *findings),
            ("--all", *to_file, "--print"),
        ],
        "get": [
            (*of_key, *findings),
            (*of_key, *to_file),
            (*of_key, "--history"),
            (*of_key, "--history", *to_file),
        ],
        "diff": [
            (log.whole, *findings),
            (log.whole, "--show", "records", *to_file),
            (log.whole, "--blocks", "4", *to_file),
        ],
        "salvage": [("--internal", *to_file), ("--mode", "everything", *to_file)],
        "space": [("--recount", *findings), ("--recount", *to_file)],
        "missing": [findings, ("--without", "0", *to_file)],
        "summary": [(), to_file],
        "files": [(), to_file],
        "checkpoint": [findings],
        "lock": [()],
        "undo": [()],
        "explain": [(*log.places, "--all"), ("--file", written(folder.parent / "fe.log", log))],
    }[verb]


def written(path: Path, log: Log) -> Path:
    """Write the log of an application whose message quotes a key; return its path."""
    key = log.key if log.key.startswith("user") else "user00000001"
    path.write_text(f"2026-11-20 10:00:00 ERROR LOG_CHECKSUM key={key} lsn={log.places[0]}\n")
    return path


def command_of(verb: str) -> click.Command:
    found = group.get_command(click.Context(group), verb)
    assert found is not None
    return found


def formats_of(verb: str) -> list[str]:
    (option,) = (each for each in command_of(verb).params if each.name == "format_")
    assert isinstance(option.type, click.Choice)
    return [str(each) for each in option.type.choices]


def is_masked(verb: str) -> bool:
    return any("--data" in each.opts for each in command_of(verb).params)


OTHERS = {"audit", "erase", "group", "ignite", "journal", "vlsn"}
"""Commands with tests of their own: an audit needs Spark (its work is tested here without),
`group` and `vlsn` need a replicated log, and `journal` that of a front end (test_journal.py).
`erase` is tested with planted secrets (tests/je_tools/erase), `ignite` with a store of another
engine (test_ignite.py)."""

MASKED = [verb for verb in COMMANDS if verb not in OTHERS and is_masked(verb)]
UNMASKED = [verb for verb in COMMANDS if verb not in OTHERS and not is_masked(verb)]


def outputs(
    verb: str,
    form: str,
    options: tuple[object, ...],
    log: Log,
    folder: Path,
    *,
    is_half: bool = False,
) -> Iterator[tuple[str, bytes]]:
    """Run every variant of a command that has this format; yield its outputs with names.

    With `is_half`, each variant has only half of the formats; with the other log, the other half.
    """
    runs = 0
    ours = formats_of(verb).index(form) + (log.database == "people")
    for number in range(len(variants(verb, log, folder))):
        if is_half and (number + ours) % 2:
            continue
        here = folder / f"{form}-{number}"
        here.mkdir()
        words = variants(verb, log, here)[number]
        home = ("--env", log.home) if verb == "explain" else (log.home,)
        done = je_tools(verb, *home, *words, "--format", form, *options)
        if done.code == 2:
            continue
        assert done.code in (0, 3, 6), done.err
        runs += done.code != 6 or verb == "checkpoint"
        name = f"{verb} {' '.join(str(word) for word in words if word not in (here, log.whole))}"
        yield name, done.out + done.err.encode()
        yield from ((f"{name}: {path}", data) for path, data in contents(here))
    assert runs or is_half, f"no variant of {verb} has --format {form}"


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of files other than logs; those of Parquet as text."""
    for path in folder.rglob("*"):
        is_log = path.suffix == ".jdb" or ".je-tools-undo" in str(path)
        if not path.is_file() or is_log:
            continue
        data = path.read_bytes()
        yield path.name, data
        if data.startswith(b"PAR1"):
            yield f"{path.name} as rows", str(pq.ParquetFile(path).read().to_pylist()).encode()


@pytest.mark.parametrize(
    ("log", "mode", "is_half"),
    [
        *((log, own, True) for log, own in MODES.items()),
        *(
            pytest.param(log, mode, False, marks=pytest.mark.exhaustive)
            for log in MODES
            for mode in MODES.values()
        ),
    ],
    indirect=["log"],
)
@pytest.mark.parametrize("verb", MASKED)
def test_nothing_leaks(verb: str, mode: str, log: Log, tmp_path: Path, *, is_half: bool) -> None:
    """Half of the cases are enough: formats depend neither on rows nor on the logs' contents."""
    for form in formats_of(verb):
        for name, data in outputs(verb, form, ("--data", mode), log, tmp_path, is_half=is_half):
            found = log.secrets.search(data)
            assert not found, (
                f"{name} --format {form}: {data[max(found.start() - 60, 0) :][:120]!r}"
            )


@pytest.mark.parametrize("verb", UNMASKED)
def test_what_cannot_mask_shows_nothing(verb: str, log: Log, tmp_path: Path) -> None:
    for form in formats_of(verb):
        for name, data in outputs(verb, form, (), log, tmp_path):
            found = log.secrets.search(data)
            assert not found, (
                f"{name} --format {form}: {data[max(found.start() - 60, 0) :][:120]!r}"
            )


def test_an_audit_shows_nothing(tmp_path: Path) -> None:
    """Its tables, what it knows for the next run, and the reports made from the tables."""
    root, folder, made = tmp_path / "root", tmp_path / "audit", tmp_path / "reports"
    write_planted(root)
    age(root)
    tables = audit_here([root], folder)
    write_tables(Fleet(made, tables))
    report(made)
    found = dict([*contents(folder), *contents(made)])
    assert {"report.html", "audit.json", "metrics.prom", ROWS_NAME} <= found.keys()
    assert b"".join(found.values()).count(b"damaged-entry") > 100
    for name, data in found.items():
        assert leaks(data) == [], name


SHOWING = ("dump", "explain", "export", "get", "diff", "salvage")


@pytest.mark.parametrize(
    ("log", "verb"),
    [
        pytest.param(log, verb, marks=[pytest.mark.exhaustive] if (at + number) % 2 else [])
        for at, log in enumerate(MODES)
        for number, verb in enumerate(SHOWING)
    ],
    indirect=["log"],
)
def test_what_is_shown_would_be_found(verb: str, log: Log, tmp_path: Path) -> None:
    """Without a mask the same search finds something in each format, as far as it is text."""
    for form in formats_of(verb):
        every = [data for _, data in outputs(verb, form, (), log, tmp_path)]
        assert any(map(log.secrets.search, every)), form
