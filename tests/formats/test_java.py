"""Names of classes in serialized Java objects."""

from __future__ import annotations

import pytest

from je_tools.formats.java import class_name

HEAD = b"\xac\xed\x00\x05"


def named(kind: bytes, name: bytes) -> bytes:
    return HEAD + kind + len(name).to_bytes(2, "big") + name


@pytest.mark.parametrize(
    ("stream", "name"),
    [
        (named(b"t", b"org.example.Reverse"), "org.example.Reverse"),
        (
            named(b"sr", b"org.example.Reverse") + bytes(8) + b"\x02\x00\x00xp",
            "org.example.Reverse",
        ),
        (named(b"vr", b"org.example.Reverse") + bytes(11), "org.example.Reverse"),
        (named(b"sr", b"org.example.Reverse")[:-1], None),
        (named(b"t", b""), None),
        (HEAD + b"sq\0~\0\0", None),
        (HEAD, None),
        (b"\xac\xed", None),
        (b"", None),
    ],
)
def test_class_name(stream: bytes, name: str | None) -> None:
    assert class_name(stream) == name
