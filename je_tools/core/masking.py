"""Masking of user data: keys and values in every output go through one `Masking`."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    # `--help` imports this module, and must not load numpy.
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.rows import Text
    from je_tools.formats.spans import Spans

HASH_SIZE = 16
"""Size of a salted hash in bytes."""

_KEY_SHOWN = 32
"""Largest number of bytes of a key in a text for people."""


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
"""Byte fields that can hold user data, and are masked.

Not masked are names of databases, comparators and triggers (names of classes), and the engine's
own messages. Keys of a database of names are masked like all keys.
"""


class DataMode(StrEnum):
    """Replacement for keys and values."""

    SHOW = "show"
    """The bytes themselves."""
    HIDE = "hide"
    """Nothing."""
    LENGTH = "length"
    """`length:N`."""
    HASH = "hash"
    """`sha256:` and the digest: the same in every run, so short values can be guessed."""
    SALTED_HASH = "salted-hash"
    """`salted:` and a digest that is the same within one run only."""


class Masking(Struct, frozen=True):
    """Masking of keys and values in outputs.

    Attributes:
        mode: replacement that is shown.
        salt: secret of this run, for salted hashes.
    """

    mode: DataMode = DataMode.SHOW
    salt: bytes = field(default_factory=lambda: os.urandom(32))

    def __repr__(self) -> str:
        # No traceback or log may show the salt, not even one that rich prints.
        return f"Masking(mode={self.mode})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("mode", self.mode)]

    def text_of(self, value: bytes) -> str | None:
        """Return the text for `value`: hexadecimal if it is shown, None if it is hidden."""
        if self.mode is DataMode.SHOW:
            return value.hex()
        mask = self._mask()
        return mask(value) if mask else None

    def field_text(self, name: str, value: bytes) -> str | None:
        """Return the text for a byte field of an entry, masked if it can hold user data."""
        return self.text_of(value) if name in KEY_FIELDS else value.hex()

    def key_text(self, key: bytes) -> str:
        """Return a key as a text for people, cut to _KEY_SHOWN bytes."""
        if self.mode is DataMode.SHOW:
            return f"hex:{key[:_KEY_SHOWN].hex()}" + ("..." if len(key) > _KEY_SHOWN else "")
        return self.text_of(key) or "(hidden)"

    def column(self, values: Spans) -> Text:
        """Return a column of byte strings, or the UTF-8 of what replaces them; null stays null."""
        from je_tools.formats.rows import text_of_ours
        from je_tools.formats.spans import Spans

        if self.mode is not DataMode.SHOW:
            found = self.texts(values.data, values.starts, values.sizes)
            values = Spans.of([None if text is None else text.encode() for text in found])
        return text_of_ours(values)

    def texts(self, data: Bytes, starts: Ints, sizes: Ints) -> list[str | None]:
        """Return the texts for spans of `data` if the mode is not SHOW; null stays null."""
        mask = self._mask()
        if mask is None:
            return [None] * len(starts)
        view = memoryview(data)  # type: ignore[arg-type]
        pairs = zip(starts.tolist(), sizes.tolist(), strict=True)
        return [None if n < 0 else mask(view[a : a + n]) for a, n in pairs]

    def _mask(self) -> Callable[[bytes | memoryview], str] | None:
        if self.mode is DataMode.LENGTH:
            return lambda value: f"length:{len(value)}"
        if self.mode not in (DataMode.HASH, DataMode.SALTED_HASH):
            return None
        # Most commands show values as they are, and this import takes 3 ms.
        from hashlib import blake2b, sha256

        if self.mode is DataMode.HASH:
            return lambda value: "sha256:" + sha256(value).hexdigest()
        salted = partial(blake2b, digest_size=HASH_SIZE, key=self.salt)
        return lambda value: "salted:" + salted(value).hexdigest()


SHOWN = Masking()
"""Masking that shows everything."""
