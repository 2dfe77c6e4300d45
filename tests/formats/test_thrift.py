"""Structs of the compact protocol: numbers are taken out, and put back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from je_tools.formats.thrift import (
    FIELDS,
    LEFT_OUT,
    NOTHING,
    STRUCT,
    Extracted,
    ThriftError,
    fill,
    open_values,
)

SEED = 20261121
TAKEN, END = 1, 2
STATES = 3


def varint(value: int) -> bytes:
    coded = bytearray()
    while value > 127:
        coded.append(value & 127 | 128)
        value >>= 7
    return bytes([*coded, value])


def struct(fields: list[tuple[int, int, Any]]) -> bytes:
    """Encode fields: number, type and value. The value of a list is its type and its items."""
    out, last = b"", 0
    for number, kind, value in fields:
        step = number - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + varint(number * 2)
        out += b"" if kind in (1, 2) else coded(kind, value)
        last = number
    return out + b"\0"


def coded(kind: int, value: Any) -> bytes:
    if kind in (4, 5, 6):
        return varint(value << 1 if value >= 0 else ~(value << 1))
    if kind == 8:
        return varint(len(value)) + bytes(value)
    if kind == 9:
        item, values = value
        size = len(values)
        head = bytes([size << 4 | item]) if size < 15 else bytes([0xF0 | item]) + varint(size)
        return head + b"".join(coded(item, each) for each in values)
    if kind == 12:
        return struct(value)
    return bytes(value)


def some_value(rng: random.Random, kind: int, depth: int) -> Any:
    if kind in (4, 5, 6):
        return rng.choice([0, 1, 63, 64, 8191, 8192, 2**40, 2**61, -1, -500])
    if kind == 8:
        return rng.randbytes(rng.choice([0, 1, 3, 127, 128, 300]))
    if kind == 9:
        item = rng.choice([1, 3, 5, 6, 7, 8, *([9, 12] if depth > 0 else [])])
        size = rng.choice([0, 1, 2, 14, 15, 40] if item < 9 else [0, 1, 3])
        return item, [some_value(rng, item, depth - 1) for _ in range(size)]
    if kind == 12:
        return some_fields(rng, depth - 1)
    return rng.randbytes({1: 1, 2: 1, 3: 1, 7: 8}[kind])


def some_fields(rng: random.Random, depth: int) -> list[tuple[int, int, Any]]:
    numbers = sorted(rng.sample([*range(1, 30), 200, 5000], rng.randrange(7)))
    kinds = [1, 2, 3, 4, 5, 6, 7, 8, *([9, 12] if depth > 0 else [])]
    return [(n, k, some_value(rng, k, depth)) for n in numbers for k in [rng.choice(kinds)]]


def some_rules(rng: random.Random) -> np.ndarray[Any, Any]:
    """Return rules that take out numbers of some fields; a negative one there is damage."""
    rules = np.zeros((STATES, FIELDS), np.int64)
    for state in range(1, STATES):
        for number in rng.sample(range(1, FIELDS), 8):
            rules[state, number] = rng.choice([TAKEN, -1, -2])
        rules[state, 0] = rng.choice([0, END])
    return rules.ravel()


def told(
    rules: np.ndarray[Any, Any], fields: list[tuple[int, int, Any]], state: int
) -> Iterator[tuple[int, int]]:
    """Yield the role and number of each value that the rules take out of a struct."""
    for number, kind, value in fields:
        rule = int(rules[state * FIELDS + number]) if number < FIELDS else 0
        if kind in (4, 5, 6) and rule > 0:
            yield rule, value
        elif kind in (9, 12):
            yield from told_inside(rules, kind, value, max(-rule, 0))
    if rules[state * FIELDS]:
        yield int(rules[state * FIELDS]), 0


def told_inside(
    rules: np.ndarray[Any, Any], kind: int, value: Any, state: int
) -> Iterator[tuple[int, int]]:
    if kind == 12:
        yield from told(rules, value, state)
    elif kind == 9:
        item, values = value
        for each in values:
            yield from told_inside(rules, item, each, state)


def again(opened: Extracted, numbers: list[int]) -> bytes:
    values = np.where(opened.roles == END, NOTHING, np.array(numbers, np.int64))
    return fill(opened, values)[0].tobytes()


def test_what_is_taken_out_is_put_back() -> None:
    rng = random.Random(SEED)
    signed = 0
    for _ in range(400):
        rules, structs = some_rules(rng), [some_fields(rng, 3) for _ in range(rng.randrange(4))]
        front, behind = rng.randbytes(3), rng.randbytes(3)
        text = b"".join(map(struct, structs))
        data = np.frombuffer(front + text + behind, np.uint8)
        expected = [each for fields in structs for each in told(rules, fields, 1)]
        if any(number < 0 for _, number in expected):
            signed += 1
            with pytest.raises(ThriftError):
                open_values(data, 3, STRUCT, rules, 1, len(structs))
            continue
        opened, end = open_values(data, 3, STRUCT, rules, 1, len(structs))
        assert end == 3 + len(text)
        assert list(zip(opened.roles.tolist(), opened.numbers.tolist(), strict=True)) == expected
        assert again(opened, opened.numbers.tolist()) == text
    assert 0 < signed < 300


def test_other_numbers() -> None:
    """Numbers of other lengths replace those taken out, and `fill` returns their ends."""
    rules = np.zeros((STATES, FIELDS), np.int64)
    rules[1, [0, 2, 3, 7]] = [END, TAKEN, -2, TAKEN]
    rules[2, 1] = TAKEN

    def text(first: int, inner: list[int], last: int | None) -> bytes:
        structs = (12, [[(1, 6, number), (4, 8, b"x" * 20)] for number in inner])
        fields = [(1, 6, 99), (2, 6, first), (3, 9, structs)]
        return struct([*fields, *([] if last is None else [(7, 4, last)])])

    data = np.frombuffer(text(1, [2, 3] * 10, 5) * 2, np.uint8)
    opened, end = open_values(data, 0, STRUCT, rules.ravel(), 1, 2)
    assert end == len(data)
    inner = [2**50, 0] * 10
    parts = [(2**60, inner, 128), (70, inner, None)]
    values = []
    for first, numbers, last in parts:
        values += [first, *numbers, LEFT_OUT if last is None else last, NOTHING]
    out, ends = fill(opened, np.array(values, np.int64))
    texts = [text(*part) for part in parts]
    assert out.tobytes() == b"".join(texts)
    assert ends[opened.roles == END].tolist() == [len(texts[0]), len(texts[0] + texts[1])]


def test_damage_is_an_error() -> None:
    rng = random.Random(SEED)
    rules = some_rules(rng)
    whole = struct([(n, k, some_value(rng, k, 3)) for n, k in enumerate([6, 8, 9, 12, 7, 5], 1)])
    for size in range(len(whole)):
        with pytest.raises(ThriftError):
            open_values(np.frombuffer(whole[:size], np.uint8), 0, STRUCT, rules, 0)
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            opened, _ = open_values(np.frombuffer(bytes(data), np.uint8), 0, STRUCT, rules, 1)
        except ThriftError:
            continue
        assert (np.diff(opened.places) >= 0).all()
    nested = bytes([0x1C]) * 100
    with pytest.raises(ThriftError):
        open_values(np.frombuffer(nested, np.uint8), 0, STRUCT, rules, 1)
