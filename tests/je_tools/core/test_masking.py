"""`--data`: hidden data is in no output, in no encoding."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.pretty import pretty_repr

from je_tools.core.masking import KEY_FIELDS, DataMode, Masking
from tests.builders.planted import NO_DATA_OF_PEOPLE, SECRET, VERSIONS, planted_log
from tests.je_tools.dumped import dump, rows_of

FORMATS = ["table", "jsonl", "csv", "parquet"]
WHOLE = 17
"""Version whose log is output in each format with each mode."""

PIECE = 8
"""Number of bytes of the secret that count as a leak; tables cut longer values."""


def spellings(secret: bytes) -> Iterator[bytes]:
    """Yield a piece of a secret in every form in which an output could hold it."""
    yield secret
    yield secret[::-1]
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    yield "".join(f"\\x{byte:02x}" for byte in secret).encode()
    yield " ".join(map(str, secret)).encode()
    yield ",".join(map(str, secret)).encode()
    yield secret.decode().encode("utf-16-le")
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + secret)
        yield text[(shift * 8 + 5) // 6 : len(secret) * 8 // 6]


def leaks(output: bytes) -> list[bytes]:
    """Return the pieces of the secret that an output holds."""
    pieces = (SECRET[i : i + PIECE] for i in range(0, len(SECRET) - PIECE + 1, 3))
    return [spelled for piece in pieces for spelled in spellings(piece) if spelled in output]


def output_of(home: Path, form: str, mode: str, folder: Path) -> bytes:
    """Return everything that a dump outputs: for Parquet, the file and what readers get from it."""
    if form != "parquet":
        return dump(home, "--format", form, "--data", mode)
    path = folder / f"{mode}.parquet"
    dump(home, "--format", form, "--data", mode, "--output", path)
    rows = pq.read_table(path).to_pylist()
    return path.read_bytes() + repr(rows).encode() + json.dumps(rows, default=bytes.hex).encode()


@pytest.mark.parametrize(
    ("version", "is_whole"),
    [
        *((version, version == WHOLE) for version in VERSIONS),
        *(pytest.param(v, True, marks=pytest.mark.exhaustive) for v in VERSIONS if v != WHOLE),
    ],
)
def test_no_secret_in_any_output(
    tmp_path: Path, version: int, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each format has each version, and each mode; each version has each mode."""
    monkeypatch.setenv("COLUMNS", "300")
    home = planted_log(tmp_path / "env", version)
    modes = sorted(set(DataMode) - {DataMode.SHOW})
    for number, form in enumerate(FORMATS, VERSIONS.index(version)):
        if is_whole or number % len(FORMATS) == 0:
            assert leaks(output_of(home, form, "show", tmp_path)), form
        for mode in modes if is_whole else modes[number % len(modes) :][:1]:
            assert leaks(output_of(home, form, mode, tmp_path)) == [], (form, mode)


def test_every_field_of_bytes_is_masked_or_named_here(tmp_path: Path) -> None:
    """A field of a new version is either masked or listed as holding no data of people."""
    from je_tools.formats.je.layout import Coding, Field, layout
    from je_tools.formats.je.types import ENTRY_TYPES, LOG_VERSION_MAX

    def names(fields: tuple[Field, ...]) -> Iterator[str]:
        for field in fields:
            if field.coding in (Coding.BYTES, Coding.REST, Coding.BYTES_I8, Coding.BYTES_I32):
                yield field.name
            yield from names(field.fields)

    every = {
        name
        for version in range(1, LOG_VERSION_MAX + 1)
        for type_no in (*ENTRY_TYPES, 99)
        for name in names(layout(type_no, version))
    }
    assert every == KEY_FIELDS | NO_DATA_OF_PEOPLE


def test_what_stands_in_its_place(tmp_path: Path) -> None:
    home = planted_log(tmp_path / "env", 17)

    def keys(mode: str) -> set[str | None]:
        rows = rows_of(dump(home, "--format", "jsonl", "--data", mode, "--type", "INS_LN_TX"))
        assert {row["data_size"] for row in rows} == {len(SECRET)}
        assert [row["data"] for row in rows] == [row["key"] for row in rows]
        return {row["key"] for row in rows}

    assert keys("show") == {SECRET.hex()}
    assert keys("hide") == {None}
    assert keys("length") == {f"length:{len(SECRET)}"}
    assert keys("hash") == {f"sha256:{hashlib.sha256(SECRET).hexdigest()}"}
    (salted,), (again,) = keys("salted-hash"), keys("salted-hash")
    assert salted is not None
    assert salted.startswith("salted:")
    assert salted != again


def test_a_salt_is_never_shown() -> None:
    masking = Masking(DataMode.SALTED_HASH)
    for text in (repr(masking), pretty_repr(masking)):
        assert masking.salt.hex() not in text
        assert repr(masking.salt) not in text
    assert masking.text_of(b"x") != Masking(DataMode.SALTED_HASH).text_of(b"x")


def test_damaged_entries_show_nothing_either(tmp_path: Path) -> None:
    """Entries whose payload ends early or does not decode say so without its bytes."""
    from tests.je_tools.dumped import je_tools

    home = planted_log(tmp_path / "env", 17)
    path = home / "00000000.jdb"
    whole = path.read_bytes()
    places = [row["offset"] for row in rows_of(dump(home, "--format", "jsonl"))][1:]
    for at in range(3):
        data = bytearray(whole)
        for place in places[at::3]:
            data[place + 14 + at] ^= 0x55
        path.write_bytes(data)
        for form in ("table", "jsonl", "csv"):
            done = je_tools("dump", path, "--format", form, "--data", "hide")
            assert leaks(done.out + done.err.encode()) == []
            assert b"BAD" in done.out.upper()
