"""Values of caches as JSON: cache objects, tagged values, and binary objects with their fields.

The JSON of a value names the type of all but strings, booleans and null: `{"int":5}`. A binary
object is `{"object":name,"typeId":id,"fields":{…}}`. What only a JVM can read is
`{"java":class,"bytes":hex}`. All texts are ASCII.

Source: CacheObjectAdapter, GridBinaryMarshaller, BinaryReaderExImpl, BinaryMetadata, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.ignite.ids import java_hash

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.spans import Offsets, Spans

DEPTH_MAX = 100
"""Depth of nested values from which a value is not decoded."""

KIND_BYTES = 2
"""Kind of a cache object that is bare bytes; the bytes of all others begin with a tag."""

METADATA_MAX = 4 << 20
"""Size from which a file of metadata is not read."""

TEXTS_MAX = 1 << 30
"""Bytes of the texts of one call; values after that are not decoded."""

WELL_KNOWN = (
    "java.util.Arrays$ArrayList",
    "java.util.Collections$EmptyList",
    "java.util.Collections$EmptyMap",
    "java.util.Collections$EmptySet",
    "java.util.Collections$SingletonList",
    "java.util.Collections$SingletonMap",
    "java.util.Collections$SingletonSet",
    "java.util.Collections$SynchronizedList",
    "java.util.Collections$SynchronizedMap",
    "java.util.Collections$UnmodifiableCollection",
    "java.util.Collections$UnmodifiableList",
    "java.util.Collections$UnmodifiableMap",
    "java.util.Collections$UnmodifiableRandomAccessList",
    "java.util.Collections$UnmodifiableSet",
    "java.util.ArrayDeque",
    "java.util.BitSet",
    "java.util.CollSer",
    "java.util.EnumMap",
    "java.util.HashMap",
    "java.util.LinkedHashMap",
    "java.util.Locale",
    "java.util.PriorityQueue",
    "java.util.TreeMap",
    "java.util.TreeSet",
    "java.util.UUID",
    "java.util.Vector",
    "java.util.concurrent.ConcurrentHashMap",
    "java.util.concurrent.CopyOnWriteArrayList",
    "java.util.concurrent.atomic.AtomicBoolean",
    "java.util.concurrent.atomic.AtomicInteger",
    "java.util.concurrent.atomic.AtomicLong",
    "java.math.BigInteger",
    "java.net.InetAddress",
    "java.net.InetSocketAddress",
    "java.net.URI",
    "java.net.URL",
    "java.time.Ser",
)
"""Classes of the JDK, whose names are in no file of a store; their ids are hashes of the names."""


class ValueProblem(IntEnum):
    """Reason why a value cannot be shown."""

    GOOD = 0
    PARTIAL = 1
    """Shown, but the name of a type or field was not known."""
    DAMAGED = 2
    """The bytes do not follow the format."""
    TRANSFORMED = 3
    """A plugin of the node has transformed the bytes, for example compressed them."""
    DEEP = 4
    """Nested more than DEPTH_MAX deep."""
    LONG = 5
    """The text, or the work for it, is much larger than the value; or the texts exceed
    TEXTS_MAX."""


class TypeMetadata(Struct, frozen=True):
    """Metadata of a type.

    Attributes:
        type_id: id.
        name: name.
        fields: name, tag of the values, and id of each field.
        schemas: id, and the ids of the fields in their order.
        constants: names of the constants of an enum, with their ordinals.
    """

    type_id: int
    name: str
    fields: tuple[tuple[str, int, int], ...]
    schemas: tuple[tuple[int, tuple[int, ...]], ...]
    constants: tuple[tuple[str, int], ...]


def read_metadata(data: bytes) -> TypeMetadata | None:
    """Return the metadata in a file of `binary_meta`; None if the bytes are not that."""
    found = _native.read_metadata(data)
    if found is None:
        return None
    type_id, name, fields, schemas, constants = found
    return TypeMetadata(
        type_id,
        _text(name),
        tuple((_text(field), kind, field_id) for field, kind, field_id in fields),
        tuple((schema, tuple(ids)) for schema, ids in schemas),
        tuple((_text(constant), ordinal) for constant, ordinal in constants),
    )


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


class ValueTexts(Struct, frozen=True):
    """Values as JSON.

    Attributes:
        offsets: int32 (n + 1,); a null value has no text.
        data: ASCII.
        problems: uint8 (n,), each a `ValueProblem`.
    """

    offsets: Offsets
    data: Bytes
    problems: npt.NDArray[np.uint8]


class ValueTypes:
    """Names and schemas of types, with which values are decoded."""

    def __init__(
        self, metadata: Iterable[bytes] = (), classes: Iterable[tuple[int, str]] = ()
    ) -> None:
        """Read metadata.

        Args:
            metadata: contents of files of `binary_meta`; other contents are ignored.
            classes: ids and names of classes.
        """
        known = [(java_hash(name), name) for name in WELL_KNOWN]
        named = [(number, name.encode("utf-8", "replace")) for number, name in [*known, *classes]]
        self._types = _native.ValueTypes(list(metadata), named)

    def texts(self, values: Spans, kinds: Ints) -> ValueTexts:
        """Return cache objects as JSON.

        Args:
            values: bytes of the objects.
            kinds: int64 (n,), their types in the store: 1 regular, 2 bytes, 100 binary, 101 enum.
        """
        return ValueTexts(*self._types.texts(values, kinds))
