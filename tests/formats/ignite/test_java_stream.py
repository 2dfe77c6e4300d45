"""Objects that Java serialized: those of an engine, cut, changed, and nested without end."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats.ignite.java_stream import DEPTH_MAX, STREAM_MAGIC, java_stream_fault
from tests.corpus import FIXTURES

NODE = FIXTURES / "ignite-killed/store/db/node1"
FILES = ("cache-accounts/cache_data.dat", "cp/cpMapSnapshot.bin")


def _of_class(code: int, flags: int, fields: bytes = b"", name: bytes = b"[Lx;") -> bytes:
    """Return the start of an object of a class."""
    start = bytes([code, 0x72]) + struct.pack(">H", len(name)) + name + bytes(8)
    return start + bytes([flags]) + fields + b"\x78\x70"


@pytest.mark.parametrize("name", FILES)
def test_an_object_is_whole_and_none_of_its_parts_is(name: str) -> None:
    data = (NODE / name).read_bytes()
    assert java_stream_fault(data) is None
    assert java_stream_fault(data + b"more") is None
    for size in range(0, len(data), 7):
        assert java_stream_fault(data[:size]) is not None, size


def test_changed_bits_never_break_the_reader() -> None:
    data = (NODE / FILES[0]).read_bytes()
    rng, seen = random.Random(1), 0
    for _ in range(500):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        seen += java_stream_fault(bytes(changed)) is not None
    assert seen > 50


@pytest.mark.parametrize(
    "part",
    [
        _of_class(0x75, 2, bytes(2)) + struct.pack(">i", 1),
        _of_class(0x73, 2, b"\0\1L\0\1ft\0\1x", b"x"),
        _of_class(0x73, 12, bytes(2), b"x"),
        b"\x72\0\0" + bytes(11),
    ],
)
def test_nesting_is_bounded(part: bytes) -> None:
    fault = java_stream_fault(STREAM_MAGIC + part * (DEPTH_MAX + 10))
    assert "nested too deeply" in (fault or "")


def _of_superclass(handle: int) -> bytes:
    """Return an object of a class whose superclass is a reference."""
    return _of_class(0x73, 2, bytes(2), b"B")[:-1] + b"\x71" + struct.pack(">I", handle)


def test_no_class_is_its_own_superclass() -> None:
    fault = java_stream_fault(STREAM_MAGIC + _of_superclass(0x7E0000))
    assert "a reference to no class" in (fault or "")


@pytest.mark.parametrize(("length", "is_deep"), [(DEPTH_MAX, False), (DEPTH_MAX + 1, True)])
def test_superclasses_by_reference_are_bounded(length: int, is_deep: bool) -> None:
    chain = b"".join(_of_superclass(0x7E0002 + 2 * each) for each in range(length))
    # Annotations of the first object hold the others.
    first, last = _of_class(0x73, 3, bytes(2), b"A"), _of_class(0x73, 2, bytes(2), b"B")
    fault = java_stream_fault(STREAM_MAGIC + first + last + chain + b"\x78")
    assert fault is None or is_deep
    assert ("nested too deeply" in (fault or "")) == is_deep


def test_numbers_of_a_stream_cost_nothing() -> None:
    many = struct.pack(">I", (1 << 32) - 1)
    for part in (_of_class(0x75, 2, bytes(2)) + many, b"\x7a" + many, b"\x7c" + many * 2):
        assert "ends early" in (java_stream_fault(STREAM_MAGIC + part) or "")


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    java_stream_fault(STREAM_MAGIC + data)
