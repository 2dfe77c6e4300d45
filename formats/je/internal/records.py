"""Internal database records as typed values, and back to bytes.

`read_record` decodes key and data of a record, given the name of its database; `encode` of each
class returns the bytes. File numbers, LSNs and VLSNs are plain numbers.

Source: je-log.md "Databases of the engine".
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from je_tools.formats.je.internal.cleaner import (
    ERASER_KEY,
    DatabaseExtinction,
    EraserState,
    Expirations,
    RecordExtinction,
    ReservedFile,
    decode_extinction,
)
from je_tools.formats.je.internal.names import (
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    METADATA_DB,
    REP_GROUP_DB,
    RESERVED_FILES_DB,
    VLSN_MAP_DB,
)
from je_tools.formats.je.internal.replication import (
    GROUP_KEY,
    RANGE_KEY,
    GhostBucket,
    RepGroup,
    RepNode,
    VlsnBucket,
    VlsnRange,
    decode_bucket,
)
from je_tools.formats.je.tuples import (
    TupleError,
    TupleReader,
    decode_whole,
)


class Unreadable(Struct, frozen=True):
    """A record that does not decode."""

    reason: str


def database_key(db_id: int) -> bytes:
    """Return the key of a database in the id database."""
    return str(db_id).encode()


InternalRecord = (
    ReservedFile
    | Expirations
    | DatabaseExtinction
    | RecordExtinction
    | RepGroup
    | RepNode
    | VlsnRange
    | VlsnBucket
    | GhostBucket
    | EraserState
)


def read_record(database: str, key: bytes, data: bytes) -> InternalRecord | Unreadable:
    """Decode a record of an internal database, given the name of the database.

    Raises:
        KeyError: the database is not one of `RECORD_DATABASES`.
    """
    decode = _DECODE[database]
    try:
        return decode(key, data)
    except TupleError as error:
        return Unreadable(str(error))


def _decode_vlsns(key: bytes, data: bytes) -> InternalRecord:
    first = decode_whole(key, TupleReader.i64)
    if first == RANGE_KEY:
        return VlsnRange.decode(data)
    bucket = decode_bucket(data)
    if bucket.first != first:
        raise TupleError(f"a bucket from VLSN {bucket.first} on has the key {first}", 0)
    return bucket


def _decode_member(key: bytes, data: bytes) -> InternalRecord:
    name = decode_whole(key, TupleReader.string)
    if name == GROUP_KEY:
        return RepGroup.decode(data)
    node = RepNode.decode(data)
    if node.name != name:
        raise TupleError(f"a node {node.name!r} has the key {name!r}", 0)
    return node


def _decode_metadata(key: bytes, data: bytes) -> InternalRecord:
    if key != ERASER_KEY:
        raise TupleError(f"{key!r} is not the key of the eraser's state", 0)
    return EraserState.decode(data)


_DECODE: dict[str, Callable[[bytes, bytes], InternalRecord]] = {
    RESERVED_FILES_DB: ReservedFile.decode,
    EXPIRATION_DB: Expirations.decode,
    EXTINCT_SCANS_DB: decode_extinction,
    METADATA_DB: _decode_metadata,
    VLSN_MAP_DB: _decode_vlsns,
    REP_GROUP_DB: _decode_member,
}

RECORD_DATABASES = tuple(_DECODE)
