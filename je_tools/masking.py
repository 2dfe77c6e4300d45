"""How a person's bytes are shown: keys and values in every output go through one `Masking`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    # Help knows of masking, and has no use for numpy.
    from je_tools.formats.arrays import Ints
    from je_tools.formats.source import Bytes

HASH_SIZE = 16
"""Bytes of a salted hash."""

_KEY_SHOWN = 32
"""Bytes of a key that a text for people shows."""


KEY_FIELDS = frozenset(
    {
        "abort_data",
        "abort_key",
        "bloom_filter",
        "branch_qualifier",
        "data",
        "data_as_key",
        "dup_count_key",
        "dup_key",
        "global_txn_id",
        "identifier_key",
        "item",
        "key",
        "key_prefix",
        "main_key",
        "root_key",
    }
)
"""Byte fields that can hold a person's bytes, and so go through the masking.

What stays: names of databases, comparators and triggers (names of classes), and the engine's own
messages. Keys of a database of names are masked all the same, as every key is.
"""


class DataMode(StrEnum):
    """What is put in the place of keys and values."""

    SHOW = "show"
    """The bytes."""
    HIDE = "hide"
    """Nothing."""
    LENGTH = "length"
    """`length:N`."""
    HASH = "hash"
    """`sha256:` and the digest: the same in every run, so short values can be guessed."""
    SALTED_HASH = "salted-hash"
    """`salted:` and a digest that is the same within one run only."""


class Masking(Struct, frozen=True):
    """What happens to keys and values before they reach any output.

    Attributes:
        mode: what is shown.
        salt: secret of this run, for salted hashes.
    """

    mode: DataMode = DataMode.SHOW
    salt: bytes = field(default_factory=lambda: os.urandom(32))

    def __repr__(self) -> str:
        # No traceback or log may tell the salt, nor may one of rich.
        return f"Masking(mode={self.mode})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("mode", self.mode)]

    def text_of(self, value: bytes) -> str | None:
        """What stands for `value` in a text output; hexadecimal where it is shown."""
        if self.mode is DataMode.SHOW:
            return value.hex()
        mask = self._mask()
        return mask(value) if mask else None

    def key_text(self, key: bytes) -> str:
        """A key in a text for people, which shows so much of it as fits."""
        if self.mode is DataMode.SHOW:
            return f"hex:{key[:_KEY_SHOWN].hex()}" + ("..." if len(key) > _KEY_SHOWN else "")
        return self.text_of(key) or "(hidden)"

    def texts(self, data: Bytes, starts: Ints, sizes: Ints) -> list[str | None]:
        """What stands for each span of `data` where the mode is not SHOW; null stays null."""
        mask = self._mask()
        if mask is None:
            return [None] * len(starts)
        view = memoryview(data)  # type: ignore[arg-type]
        pairs = zip(starts.tolist(), sizes.tolist(), strict=True)
        return [None if n < 0 else mask(view[a : a + n]) for a, n in pairs]

    def _mask(self) -> Callable[[bytes | memoryview], str] | None:
        if self.mode is DataMode.LENGTH:
            return lambda value: f"length:{len(value)}"
        if self.mode is DataMode.HASH:
            return lambda value: "sha256:" + hashlib.sha256(value).hexdigest()
        if self.mode is DataMode.SALTED_HASH:
            return self._salted
        return None

    def _salted(self, value: bytes | memoryview) -> str:
        digest = hashlib.blake2b(value, digest_size=HASH_SIZE, key=self.salt)
        return "salted:" + digest.hexdigest()


SHOWN = Masking()
"""Everything is shown."""
