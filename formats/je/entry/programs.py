"""Programs for payloads: the `layout` of a family and log version as tables of numbers.

The extension decodes (`columns`) and encodes (`column_writer`) by these programs, so `layout`
remains the only place that knows a field.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats import _native
from je_tools.formats.je.layout import Coding, Field, Op, layout
from je_tools.formats.je.types import ENTRY_TYPES, Family

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

U8, I32, I64 = int(Coding.U8), int(Coding.I32), int(Coding.I64)
PACKED, BYTES, REST = int(Coding.PACKED), int(Coding.BYTES), int(Coding.REST)
COMPACT_LSN, BYTES_I32 = int(Coding.COMPACT_LSN), int(Coding.BYTES_I32)
SET, CLEAR, NOT = int(Op.SET), int(Op.CLEAR), int(Op.NOT)

# Numbers of one operation, followed by TEST_WIDTH more for each test.
OP_CODING, OP_COLUMN, OP_SIZE, OP_BASE, OP_TESTS, OP_REPEAT, OP_HEAD = range(7)
TEST_COLUMN, TEST_PARENT, TEST_OP, TEST_OPERAND, TEST_WIDTH = range(5)
_MAX_TESTS = 2
OP_WIDTH = OP_HEAD + _MAX_TESTS * TEST_WIDTH


class Program(Struct, frozen=True, dict=True):
    """The fields of a family in one log version, as numbers.

    Attributes:
        names: names of the columns, by column number.
        sized: for each column its row in `sizes`, or -1 if it holds a number.
        op_start, op_stop: int64 (256,); bounds in `ops` of each type's operations.
        ops: int64 (OP_WIDTH k,); for each operation its coding, value column or -1, size column
            or -1, the parent's column with the base file of compact LSNs, number of tests,
            column with the number of repetitions or -1, and two tests of (column, 1 if it is the
            parent's, operation, operand), those of parents last.
    """

    names: tuple[str, ...]
    sized: tuple[int, ...]
    op_start: Ints
    op_stop: Ints
    ops: Ints

    @functools.cached_property
    def native(self) -> _native.Program:
        """The program in the form that the extension runs."""
        return _native.Program(
            op_start=self.op_start,
            op_stop=self.op_stop,
            ops=self.ops,
            columns=len(self.names),
            sized=max(self.sized, default=-1) + 1,
        )


@functools.cache
def in_columns(family: Family, version: int, wanted: frozenset[str]) -> bool:
    """Return True if `columns.decode` can return these fields from the front of an entry.

    This holds for the ids of most families, although only COLUMN_FAMILIES decode as a whole.
    """
    parts = _heads(family, version)
    kept = _kept(parts.values(), wanted)
    used = [f for fields in parts.values() for f in _up_to_last(fields, kept)]
    tests = {test.op for f in used for test in f.when}
    codings = {f.coding for f in used}
    return wanted <= set(kept) and codings <= _KNOWN_CODINGS and tests <= _KNOWN_TESTS


@functools.cache
def program_of(family: Family, version: int, part: str, wanted: frozenset[str] | None) -> Program:
    """Return the program of a family's head (before a list), slots or tail (after the list).

    A field that a condition tests is kept even if it is not wanted.
    """
    parts = {no: fields[part] for no, fields in _family_parts(family, version).items()}
    kept = _kept(parts.values(), wanted)
    read = {no: _up_to_last(fields, kept) for no, fields in parts.items()}
    return _assembled(read, kept, _parent_columns(family, version) if part != "head" else {})


@functools.cache
def slot_program(family: Family, version: int, wanted: frozenset[str] | None) -> Program:
    """Return the program of slots; it reads each slot to its end, whatever columns are kept."""
    if wanted is None:
        return program_of(family, version, "slots", None)
    parts = {no: fields["slots"] for no, fields in _family_parts(family, version).items()}
    tested = {test.field for fields in parts.values() for f in fields for test in f.when}
    every = _kept(parts.values(), None)
    kept = tuple(name for name in every if name in wanted or name in tested)
    return _assembled(parts, kept, _parent_columns(family, version))


@functools.cache
def front_program(types: frozenset[int], version: int, wanted: frozenset[str]) -> Program:
    """Return the program that reads some numbers of entries of several families.

    Groups and lists before these fields are skipped. Types without any of the fields have no
    operations.

    Args:
        types: type numbers.
        version: log version.
        wanted: names of fields.
    """
    read = {}
    for no in types:
        first, last = ENTRY_TYPES[no].first_version, ENTRY_TYPES[no].last_version
        fields = layout(no, version) if first <= version <= last else ()
        read[no] = _flat(_up_to_last(fields, tuple(wanted)))
    parts = tuple(read.values())
    names = dict.fromkeys(f.name for fields in parts for f in fields if f.name in wanted)
    needed = {test.field for fields in parts for f in fields for test in f.when}
    needed |= {f.count for fields in parts for f in fields if f.count}
    kept = (*names, *sorted(needed - names.keys()))
    return _assembled(read, kept, {})


def _flat(fields: tuple[Field, ...], group: str = "") -> tuple[Field, ...]:
    """Return fields without groups and lists: their members follow each other, with long names.

    The field that a list repeats gets the `count` of the list.
    """
    flat: list[Field] = []
    for declared in fields:
        when = tuple(replace(test, field=group + test.field) for test in declared.when)
        count = group + declared.count if declared.count else ""
        name = group + declared.name
        if declared.coding is Coding.GROUP:
            flat += _flat(declared.fields, f"{name}.")
        elif declared.coding is Coding.LIST:
            (item,) = declared.fields
            flat.append(replace(item, name=f"{name}.{item.name}", count=count))
        else:
            flat.append(replace(declared, name=name, when=when, count=count))
    return tuple(flat)


def _assembled(
    parts: dict[int, tuple[Field, ...]], kept: tuple[str, ...], parents: dict[str, int]
) -> Program:
    """Return the program that reads these fields of each type and keeps some columns."""
    sized = _sized(parts.values(), kept)
    starts, stops = np.zeros(256, np.int64), np.zeros(256, np.int64)
    ops: list[int] = []
    for type_no, fields in parts.items():
        starts[type_no] = len(ops)
        for declared in fields:
            ops += _operation(declared, kept, sized, parents)
        stops[type_no] = len(ops)
    return Program(kept, sized, starts, stops, np.array(ops, np.int64))


@functools.cache
def _family_parts(family: Family, version: int) -> dict[int, dict[str, tuple[Field, ...]]]:
    """Return head, slots and tail of each entry type of a family in this log version."""
    return {
        entry_type.no: _parts(layout(entry_type.no, version))
        for entry_type in ENTRY_TYPES.values()
        if entry_type.family is family
        and entry_type.first_version <= version <= entry_type.last_version
    }


def _heads(family: Family, version: int) -> dict[int, tuple[Field, ...]]:
    return {no: parts["head"] for no, parts in _family_parts(family, version).items()}


def _up_to_last(fields: tuple[Field, ...], kept: tuple[str, ...]) -> tuple[Field, ...]:
    """Return the fields up to the last one that is kept; later fields are not read."""
    last = max((i for i, f in enumerate(fields) if _column_name(f) in kept), default=-1)
    return fields[: last + 1]


def _parts(fields: tuple[Field, ...]) -> dict[str, tuple[Field, ...]]:
    lists = [i for i, declared in enumerate(fields) if declared.coding is Coding.LIST]
    if not lists:
        return {"head": fields, "slots": (), "tail": ()}
    at = lists[0]
    return {"head": fields[:at], "slots": fields[at].fields, "tail": fields[at + 1 :]}


def _column_name(declared: Field) -> str:
    """Return the name of a field's column; compact LSNs become plain ones in columns."""
    return "lsn" if declared.coding is Coding.COMPACT_LSN else declared.name


def _kept(parts: Iterable[tuple[Field, ...]], wanted: frozenset[str] | None) -> tuple[str, ...]:
    names = dict.fromkeys(_column_name(f) for fields in parts for f in fields)
    if wanted is None:
        return tuple(names)
    # Fields after the last wanted one are not read, so fields that they depend on are not needed.
    read = [f for fields in parts for f in _up_to_last(fields, tuple(wanted))]
    tested = {test.field for f in read for test in f.when}
    return tuple(n for n in names if n in wanted or n in tested)


def _sized(parts: Iterable[tuple[Field, ...]], kept: tuple[str, ...]) -> tuple[int, ...]:
    with_bytes = {f.name for fields in parts for f in fields if f.coding in _WITH_SIZE}
    sized = [name for name in kept if name in with_bytes]
    return tuple(sized.index(name) if name in with_bytes else -1 for name in kept)


def _parent_columns(family: Family, version: int) -> dict[str, int]:
    names = program_of(family, version, "head", None).names
    return {name: column for column, name in enumerate(names)}


def _operation(
    declared: Field, kept: tuple[str, ...], sized: tuple[int, ...], parents: dict[str, int]
) -> list[int]:
    name = _column_name(declared)
    column = kept.index(name) if name in kept else -1
    tests: list[int] = []
    # Tests of parents come last: they are evaluated once for all items.
    for test in sorted(declared.when, key=lambda test: test.field not in kept):
        own = test.field in kept
        at = kept.index(test.field) if own else parents[test.field]
        tests += [at, int(not own), int(test.op), test.operand]
    tests += [0] * (_MAX_TESTS * TEST_WIDTH - len(tests))
    coding = Coding.BYTES if declared.coding is Coding.TEXT else declared.coding
    size = sized[column] if column >= 0 else -1
    base = parents.get("base_file_no", 0)
    repeat = kept.index(declared.count) if declared.count else -1
    return [int(coding), column, size, base, len(declared.when), repeat, *tests]


_WITH_SIZE = (Coding.BYTES, Coding.TEXT, Coding.REST, Coding.BYTES_I32)
_KNOWN_CODINGS = {
    Coding.U8,
    Coding.I32,
    Coding.I64,
    Coding.PACKED,
    Coding.COMPACT_LSN,
    *_WITH_SIZE,
}
_KNOWN_TESTS = {Op.SET, Op.CLEAR, Op.NOT}
