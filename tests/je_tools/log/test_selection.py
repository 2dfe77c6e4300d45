"""Every filter of `dump`, alone and combined, compared with a naive one over the whole dump."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pytest

from je_tools.errors import UsageError
from je_tools.log.parsing import KeyPattern, parse_bytes, parse_key, parse_lsn, parse_types
from je_tools.log.time_filter import parse_time
from tests.corpus import FIXTURES
from tests.je_tools.dumped import (
    Keep,
    Row,
    all_lines,
    all_rows,
    dump,
    dump_rows,
    items,
    je_tools,
)

NAMES = [
    "v6-halt/env",
    "v8-crash-txn-ckpt/env",
    "v8-dbops/env",
    "v15-embedded/env",
    "v15-rep-uncommitted/node1",
    "v17-crash-txn/env",
    "v17-erase-after/env",
    "starrocks-rep-uncommitted/node2",
    "v26-crash-txn-ckpt/env",
    "v26-dbops/env",
    "v26-rep-committed/node3",
]
LARGE = "v17-erase-after/env"
"""A log of three files, with which only filters of places and times are tried by default."""
LIKE_OTHERS = {
    "v8-crash-txn-ckpt/env",
    "v15-rep-uncommitted/node1",
    "v26-crash-txn-ckpt/env",
    "v26-rep-committed/node3",
}
"""Logs whose types of entries others have, too."""
ROUNDS = 3

IN_TYPES = {"IN", "BIN", "DIN", "DBIN", "BINDelta", "DupBINDelta", "NewBINDelta"}
CKPT_TYPES = {"CkptStart", "CkptEnd", "DbTree"}
REP_TYPES = {
    *("Commit", "Abort", "RollbackStart", "RollbackEnd", "Matchpoint", "NameLN_TX", "NameLN"),
    *("LN_TX", "LN", "DelDupLN_TX", "DelDupLN", "INS_LN", "INS_LN_TX", "UPD_LN", "UPD_LN_TX"),
    *("DEL_LN", "DEL_LN_TX", "ExtinctScanLN_TX", "UPD_LN_TX_WITH_BEFORE_IMAGE"),
    "DEL_LN_TX_WITH_BEFORE_IMAGE",
}
GROUPS: dict[str, Keep] = {
    "LN": lambda row: "LN" in row["type"],
    "IN": lambda row: row["type"] in IN_TYPES | {"INDelete", "INDupDelete"},
    "TXN": lambda row: row["type"] in {"Commit", "Abort", "Prepare"},
    "CKPT": lambda row: row["type"] in CKPT_TYPES,
    "REP": lambda row: row["type"] in REP_TYPES,
}


Maker = Callable[[random.Random, list[Row], str], "Filter"]


class Filter(NamedTuple):
    """Options, and a predicate for the rows that they must leave."""

    options: list[str]
    keep: Keep


def lsn_of(row: Row) -> int:
    """Return an LSN as a number."""
    number: int = row["file_no"] << 32 | row["offset"]
    return number


def own_time(row: Row) -> int | None:
    """Return the time in an entry's own fields, if any."""
    times = (row["entry"].get(name) for name in ("time_ms", "modified_ms", "created_ms"))
    return next((time for time in times if time is not None and time > 0), None)


@functools.cache
def times_in(name: str) -> dict[str, int | None]:
    """Return times by LSN: own, else of the transaction's end, else the last before."""
    rows = all_rows(name)
    ends = {
        row["txn_id"]: own_time(row)
        for row in rows
        if row["type"] in {"Commit", "Abort"} and row["checksum"] != "bad"
    }
    last = None
    times = {}
    for row in rows:
        own = own_time(row)
        if own is not None and row["checksum"] != "bad":
            last = own
        times[row["lsn"]] = own or ends.get(row["txn_id"]) or last
    return times


def some_types(rng: random.Random, rows: list[Row], _name: str) -> Filter:
    named = sorted({row["type"] for row in rows})
    chosen = rng.sample(named, min(len(named), rng.randrange(1, 3)))
    chosen += rng.sample(sorted(GROUPS), rng.randrange(0, 2))
    # `IN` and `LN` name both types and groups; a filter means the group.
    keeps = [GROUPS.get(c, lambda row, c=c: row["type"] == c) for c in chosen]
    spelled = [rng.choice([c, c.lower(), c.upper()]) for c in chosen]
    options = [part for text in spelled for part in ("--type", text)]
    return Filter(options, lambda row: any(keep(row) for keep in keeps))


def some_databases(rng: random.Random, rows: list[Row], _name: str) -> Filter:
    options, ids, names = [], set(), set()
    for row in rng.sample([row for row in rows if row["db_id"] is not None], rng.randrange(1, 3)):
        by_name = row["db"] is not None and rng.random() < 0.5
        options += ["--db", row["db"] if by_name else str(row["db_id"])]
        (names if by_name else ids).add(row["db" if by_name else "db_id"])
    # A name equal to another database's id takes precedence over the id.
    ids -= {int(row["db"]) for row in rows if (row["db"] or "x").isdecimal()}
    return Filter(options, lambda row: row["db_id"] in ids or row["db"] in names)


def some_txns(rng: random.Random, rows: list[Row], _name: str) -> Filter:
    known = sorted({row["txn_id"] for row in rows if row["txn_id"] is not None})
    chosen = {rng.choice(known) for _ in range(rng.randrange(1, 8))}
    options = [part for txn in sorted(chosen) for part in ("--txn", str(txn))]
    return Filter(options, lambda row: row["txn_id"] in chosen)


def some_range(
    rng: random.Random, values: Iterable[int], names: tuple[str, str], spell: Callable[[int], str]
) -> tuple[list[str], int, int]:
    known = sorted(values)
    low, high = sorted((rng.choice(known) + rng.randrange(-1, 2), rng.choice(known)))
    first, last = rng.choice([(True, True), (True, False), (False, True)])
    options = [names[0], spell(max(low, 0))] * first + [names[1], spell(high)] * last
    return options, max(low, 0) if first else -1, high if last else 1 << 70


def some_lsns(rng: random.Random, rows: list[Row], _name: str) -> Filter:
    def spell(lsn: int) -> str:
        return f"0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:X}"

    options, low, high = some_range(rng, map(lsn_of, rows), ("--from-lsn", "--to-lsn"), spell)
    return Filter(options, lambda row: low <= lsn_of(row) <= high)


def some_vlsns(rng: random.Random, rows: list[Row], _name: str) -> Filter:
    known = [row["vlsn"] for row in rows if row["vlsn"] is not None] or [0, 5]
    options, low, high = some_range(rng, known, ("--from-vlsn", "--to-vlsn"), str)
    return Filter(options, lambda row: row["vlsn"] is not None and low <= row["vlsn"] <= high)


def some_times(rng: random.Random, rows: list[Row], name: str) -> Filter:
    times = times_in(name)
    known = [time for time in times.values() if time is not None]
    options, low, high = some_range(rng, known, ("--since", "--until"), str)

    def keep(row: Row) -> bool:
        time = times[row["lsn"]]
        return time is not None and low <= time <= high

    return Filter(options, keep)


def replicated_only(_rng: random.Random, _rows: list[Row], _name: str) -> Filter:
    return Filter(["--replicated"], lambda row: row["replicated"])


def some_keys(rng: random.Random, rows: list[Row], _name: str) -> Filter:
    return either([one_key(rng, rows) for _ in range(rng.randrange(1, 4))])


def either(filters: list[Filter]) -> Filter:
    """Combine the values of an option given several times: any of them matches."""
    options = [part for each in filters for part in each.options]
    return Filter(options, lambda row: any(each.keep(row) for each in filters))


def one_key(rng: random.Random, rows: list[Row]) -> Filter:
    key = bytes.fromhex(rng.choice([row["key"] for row in rows if row["key"] is not None]))
    part = key[: rng.randrange(len(key) + 1)]
    spelled = [(f"hex:{key.hex()}", key, True), (f"hex:{part.hex()}*", part, False)]
    if key.isascii() and key.decode("ascii").isprintable() and b":" not in key and key:
        spelled.append((key.decode("ascii"), key, True))
    if len(key) == 8:
        number = struct.unpack(">Q", key)[0] - (1 << 63)
        spelled.append((f"long:{number}", key, True))
    if len(key) == 4:
        spelled.append((f"int:{struct.unpack('>I', key)[0] - (1 << 31)}", key, True))
    text, needle, whole = rng.choice(spelled)

    def keep(row: Row) -> bool:
        if row["key"] is None:
            return False
        own = bytes.fromhex(row["key"])
        return own == needle if whole else own.startswith(needle)

    return Filter(["--key", text], keep)


def some_greps(rng: random.Random, rows: list[Row], name: str) -> Filter:
    return either([one_grep(rng, rows, name) for _ in range(rng.randrange(1, 4))])


def one_grep(rng: random.Random, rows: list[Row], name: str) -> Filter:
    earlier = ("abort_key", "abort_data", "data_as_key")

    def places(row: Row) -> list[bytes]:
        if row["key"] is None and row["data"] is None:
            return [items(name)[row["lsn"]]]
        texts = [row["key"], row["data"], *(row["entry"].get(field) for field in earlier)]
        return [bytes.fromhex(text) for text in texts if text is not None]

    place = b""
    while not place:
        place = rng.choice(places(rng.choice(rows)))
    start = rng.randrange(len(place))
    needle = place[start : start + rng.choice([1, 2, 3, 8])]
    texts = [f"hex:{needle.hex()}"]
    if needle.isascii() and needle.decode("ascii").isprintable() and b":" not in needle:
        texts.append(needle.decode("ascii"))
    return Filter(
        ["--grep", rng.choice(texts)], lambda row: any(needle in place for place in places(row))
    )


MAKERS = [
    some_types,
    some_databases,
    some_txns,
    some_lsns,
    some_vlsns,
    some_times,
    replicated_only,
    some_keys,
    some_greps,
]


def expected(rows: list[Row], filters: Iterable[Filter]) -> list[Row]:
    filters = list(filters)
    return [row for row in rows if all(each.keep(row) for each in filters)]


def printed(name: str, rows: Iterable[Row]) -> bytes:
    """Return the lines that a dump prints for these rows."""
    return b"".join(all_lines(name)[row["lsn"]] for row in rows)


@pytest.mark.parametrize(
    ("name", "makers"),
    [
        pytest.param(LARGE, [some_lsns, some_times], id=f"{LARGE}-few"),
        *(
            pytest.param(
                name,
                MAKERS,
                id=name,
                marks=[pytest.mark.exhaustive] if name in {LARGE, *LIKE_OTHERS} else [],
            )
            for name in NAMES
        ),
    ],
)
def test_filters_leave_what_naive_ones_leave(name: str, makers: Sequence[Maker]) -> None:
    """Filters are tried alone, then several together with order and limit, leaving some rows."""
    rng = random.Random(name)
    rows = all_rows(name)
    for make in makers:
        one = make(rng, rows, name)
        out = dump(FIXTURES / name, "--format", "jsonl", *one.options)
        assert out == printed(name, expected(rows, [one])), one.options
    for _ in range(ROUNDS):
        left: list[Row] = []
        while not left:
            count = min(rng.randrange(2, 5), len(makers))
            filters = [make(rng, rows, name) for make in rng.sample(makers, count)]
            left = expected(rows, filters)
        options = [part for each in filters for part in each.options]
        if rng.random() < 0.5:
            options.append("--backward")
            left.reverse()
        if rng.random() < 0.5:
            most = rng.randrange(1, 2 * len(left) + 2)
            options += ["--limit", str(most)]
            left = left[:most]
        out = dump(FIXTURES / name, "--format", "jsonl", *options)
        assert out == printed(name, left), options


@pytest.mark.parametrize("name", ["v17-crash-txn/env", "v26-rep-committed/node1"])
@pytest.mark.parametrize("most", [1, 2, 99, 100_000])
def test_the_last_entries_of_a_log(name: str, most: int) -> None:
    rows = dump_rows(FIXTURES / name, "--backward", "--limit", str(most))
    assert rows == all_rows(name)[::-1][:most]


@pytest.mark.parametrize("name", ["v17-erase-after/env", "v8-dbops/env"])
def test_entries_that_are_not_summed_are_the_same_but_for_the_sum(name: str) -> None:
    unsummed = dump_rows(FIXTURES / name, "--ignore-checksum")
    assert {row["checksum"] for row in unsummed} <= {"unchecked", "none"}
    plain = [row | {"checksum": None} for row in all_rows(name)]
    assert [row | {"checksum": None} for row in unsummed] == plain


def test_the_time_of_an_entry() -> None:
    """In a log whose entries have no time of their own, a record has its commit's."""
    name = "v8-crash-txn-ckpt/env"
    rows = all_rows(name)
    commit = next(row for row in reversed(rows) if row["type"] == "Commit")
    records = [row for row in rows if row["txn_id"] == commit["txn_id"]]
    at = str(commit["entry"]["time_ms"])
    found = dump_rows(FIXTURES / name, "--since", at, "--until", at)
    assert [row for row in found if row["txn_id"] == commit["txn_id"]] == records
    assert len(records) > 1


@pytest.mark.parametrize("option", ["--key", "--grep"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_filter_that_is_repeated_takes_either(option: str, order: int) -> None:
    """The values are alternatives; the last does not replace the others."""
    name = "v17-basic/env"
    values = ["user00000001", "user00000007"][::order]
    found = dump_rows(FIXTURES / name, option, values[0], option, values[1])
    single = [dump_rows(FIXTURES / name, option, value) for value in values]
    assert all(single)
    both = {row["lsn"] for rows in single for row in rows}
    assert [row["lsn"] for row in found] == [r["lsn"] for r in all_rows(name) if r["lsn"] in both]


# Parsing of values


@pytest.mark.parametrize(
    ("text", "needle", "whole"),
    [
        ("alice", b"alice", True),
        ("alice*", b"alice*", True),
        ("hex:", b"", True),
        ("hex:*", b"", False),
        ("hex:00fF", b"\x00\xff", True),
        ("hex:00ff*", b"\x00\xff", False),
        ("long:5485", bytes.fromhex("800000000000156d"), True),
        ("long:-1", bytes.fromhex("7fffffffffffffff"), True),
        ("long:9223372036854775807", b"\xff" * 8, True),
        ("int:0", bytes.fromhex("80000000"), True),
        ("int:-2147483648", bytes(4), True),
        ("str:name", b"name\0", True),
        ("str:a\U0001f600", b"a\xed\xa0\xbd\xed\xb8\x80\0", True),
        ("other:x", b"other:x", True),
        ("caf\udce9", b"caf\xe9", True),
        ("", b"", True),
    ],
)
def test_keys_as_people_write_them(text: str, needle: bytes, whole: bool) -> None:
    assert parse_key(text) == KeyPattern(needle, whole)


@pytest.mark.parametrize(
    "text", ["long:x", "long:", "int:2147483648", "long:9223372036854775808", "hex:0", "hex:zz*"]
)
def test_keys_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--key"):
        parse_key(text)


def test_bytes_to_search_for() -> None:
    assert parse_bytes("a b") == b"a b"
    assert parse_bytes("hex:0a1B") == b"\n\x1b"
    assert parse_bytes("\udcff") == b"\xff"
    for nothing in ("", "hex:", "hex:1"):
        with pytest.raises(UsageError, match="--grep"):
            parse_bytes(nothing)


def test_lsns() -> None:
    assert parse_lsn("0x3/0x1a2f") == 3 << 32 | 0x1A2F
    assert parse_lsn("0XFFFFFFFF/0x0") == 0xFFFFFFFF << 32
    # Exceptions of the engine print decimals after 0x: a guess would read another place.
    for wrong in ("3/6703", "0x3", "0x3/1a2f", "0x100000000/0x0", "0x3/0x1a2f ", ""):
        with pytest.raises(UsageError, match="0x3/0x1a2f"):
            parse_lsn(wrong)


def test_types_by_name() -> None:
    assert parse_types(["commit", "ABORT"]) == {17, 18}
    with pytest.raises(UsageError, match=r"did you mean .*NameLN_TX.*explain type:"):
        parse_types(["NameLNTX"])


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-20T10:00:00", 1795168800000),
        ("2026-11-20 10:00", 1795168800000),
        ("2026-11-20", 1795132800000),
        ("20261120", 1795132800000),
        ("2026-11-20T10:00:00.803", 1795168800803),
        ("2026-11-20T10:00:00.0019", 1795168800001),
        ("2026-11-20T12:00:00+02:00", 1795168800000),
        ("2026-11-20T10:00:00Z", 1795168800000),
        ("1795168800803", 1795168800803),
        ("1795168800803ms", 1795168800803),
        ("1795168800s", 1795168800000),
        ("1s", 1000),
        ("0ms", 0),
        ("946684800000", 946684800000),
        ("253402300799999ms", 253402300799999),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_times(text: str, time_ms: int) -> None:
    assert parse_time(text) == time_ms


@pytest.mark.parametrize("text", ["yesterday", "", "2026", "10:00", "2026-13-01", "12.5"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="2026-11-20T10:00:00"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1700000000", "1970-01-20.*1700000000s for seconds, or 1700000000ms"),
        ("946684799999", "1999-12-31"),
        ("202611201000", "1976-06-03"),
        ("20261120100000", "2612-01-"),
        ("1700000000000000", "9999"),
        ("99999999999999999999", "9999"),
    ],
)
def test_a_number_that_was_not_meant_in_ms(text: str, meant: str) -> None:
    with pytest.raises(UsageError, match=meant):
        parse_time(text)


def test_a_number_with_a_unit_that_no_calendar_holds() -> None:
    for text in ("253402300800000ms", "1700000000000s"):
        with pytest.raises(UsageError, match="9999"):
            parse_time(text)


def test_seconds_and_milliseconds_are_the_same_time() -> None:
    name = "v17-basic/env"
    at = next(row["entry"]["time_ms"] for row in all_rows(name) if row["type"] == "Commit")
    seconds = dump_rows(FIXTURES / name, "--since", f"{at // 1000}s")
    assert seconds == dump_rows(FIXTURES / name, "--since", f"{at // 1000 * 1000}ms")
    assert seconds
    done = je_tools("dump", FIXTURES / name, "--since", str(at // 1000))
    assert (done.code, done.out) == (2, b"")
    assert f"{at // 1000}s" in done.err
