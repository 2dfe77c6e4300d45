"""Files of hashed needles: an auditor searches with them without holding personal data.

A file has a random seed and a random salt, so two files of the same needles have nothing in common.
With the file, it can still be tested whether a guess is among the needles.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from je_tools.erase.proof.needles import (
    NEEDLE_SIZE_MAX,
    HashedNeedle,
    HashedNeedles,
    Needle,
    NeedleKind,
)
from je_tools.errors import InputError, UsageError
from je_tools.formats.needles import WIDTH_MAX, hash_needles

_FORMAT = "je-tools needles"
_VERSION = 1
_SALT_SIZE = 32


class _NeedleFile(Struct, frozen=True):
    """A file of hashed needles; `seed` and `salt` are hexadecimal."""

    format: str
    version: int
    seed: str
    salt: str
    width: int
    needles: tuple[HashedNeedle, ...]


def write_needles(needles: Sequence[Needle], out: BinaryIO) -> None:
    """Write literals as hashed needles, in the order of their digests.

    Raises:
        UsageError: one is a pattern, which has no hash.
    """
    if any(each.kind is not NeedleKind.LITERAL for each in needles):
        raise UsageError(
            "--write-needles takes keys and texts only: a regular expression has no hash"
        )
    values = sorted({each.value for each in needles})
    if not values:
        raise UsageError("--write-needles: no needles; give --key, --key-file or --match")
    seed = int.from_bytes(os.urandom(8)) | 1
    width = min(WIDTH_MAX, *map(len, values))
    made = HashedNeedles(seed, os.urandom(_SALT_SIZE), width)
    firsts, wholes = hash_needles(values, seed, width)
    hashed = [
        HashedNeedle(len(value), made.digest(value), first, whole)
        for value, first, whole in zip(values, firsts.tolist(), wholes.tolist(), strict=True)
    ]
    # The order of the values would reveal something about them.
    hashed.sort(key=lambda each: each.sha256)
    file = _NeedleFile(_FORMAT, _VERSION, f"{seed:016x}", made.salt.hex(), width, tuple(hashed))
    out.write(msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")


def read_needles(path: Path) -> HashedNeedles:
    """Read a file of hashed needles.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        file = msgspec.json.decode(data, type=_NeedleFile)
        needles = HashedNeedles(
            int(file.seed, 16), bytes.fromhex(file.salt), file.width, file.needles
        )
    except (ValueError, RecursionError):
        raise _wrong(path, "it is not JSON with the fields of such a file") from None
    if file.format != _FORMAT:
        raise _wrong(path, "its format is another one")
    if file.version != _VERSION:
        raise _wrong(path, f"it is of version {file.version}, and this je-tools reads {_VERSION}")
    if not 0 <= needles.seed < 1 << 64 or not 1 <= file.width <= WIDTH_MAX or not file.needles:
        raise _wrong(path, "its seed or width is out of range, or it has no needles")
    if not all(_is_right(each, file.width) for each in file.needles):
        raise _wrong(path, "a needle is out of range")
    return needles


def _is_right(needle: HashedNeedle, width: int) -> bool:
    def is_hash(value: int) -> bool:
        return 0 <= value < 1 << 32

    is_sized = width <= needle.size <= NEEDLE_SIZE_MAX
    is_digest = len(needle.sha256) == 64 and not set(needle.sha256) - set("0123456789abcdef")
    return is_sized and is_digest and is_hash(needle.first) and is_hash(needle.whole)


def _wrong(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path}: not a file of hashed needles: {reason}; --write-needles writes such files"
    )
