"""Pushdown: conditions of Spark turned into the selection of `dump`.

A condition on header columns is decided here, completely. One on payloads narrows what is read, and
Spark checks it again, because only a full decode shows that an entry ends inside a field. All other
conditions are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.escaping import clean_text
from je_tools.core.masking import DataMode
from je_tools.formats.je.types import type_name
from je_tools.log.selection import KeyPattern, Selection

if TYPE_CHECKING:
    from je_tools.log.log_files import LogFile

NEVER_NULL = frozenset(
    {
        "file_no",
        "offset",
        "lsn",
        "type",
        "version",
        "header_size",
        "item_size",
        "prev_offset",
        "provisional",
        "replicated",
        "invisible",
        "checksum",
    }
)
"""Columns that have a value in every row."""

VLSN_MIN = -(1 << 63)
SIGNED_FILES = 1 << 31
"""First file number whose LSNs are negative as int64."""

_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda value, other: value == other,
    "<=>": lambda value, other: value == other,
    ">": lambda value, other: value > other,
    ">=": lambda value, other: value >= other,
    "<": lambda value, other: value < other,
    "<=": lambda value, other: value <= other,
    "in": lambda value, others: value in others,
    "starts with": lambda value, other: value.startswith(other),
    "ends with": lambda value, other: value.endswith(other),
    "contains": lambda value, other: other in value,
    "is not null": lambda _, __: True,
    "is null": lambda _, __: False,
}


class Condition(Struct, frozen=True):
    """A column, an SQL operator and a value; for `in` a tuple of values."""

    column: str
    operator: str
    value: Any = None
    negated: bool = False

    def holds(self, value: Any) -> bool:
        """Return True if the condition holds for a value that is not null."""
        return _COMPARED[self.operator](value, self.value) is not self.negated

    def compares(self, *kinds: type) -> bool:
        """Return True if every value of the condition is of one of these types, and not null."""
        if self.operator in ("is null", "is not null"):
            return True
        values = self.value if self.operator == "in" else (self.value,)
        return all(type(value) in kinds for value in values)


class Narrowed(Struct, frozen=True):
    """Part of a log that is left to read.

    Attributes:
        selection: entries to read, without conditions on names of databases.
        files: conditions on the number and the version of a file.
        db_names: sets of names as they are shown; the name of a database must be in all of them.
    """

    selection: Selection
    files: tuple[Condition, ...] = ()
    db_names: tuple[frozenset[str], ...] = ()

    def has(self, file: LogFile) -> bool:
        """Return True if a file may hold wanted entries."""
        told = {"file_no": file.file_no, "version": file.version}
        if not all(condition.holds(told[condition.column]) for condition in self.files):
            return False
        return self.selection.file_is_wanted(file.file_no)

    def resolved(self, names: Mapping[int, str]) -> Selection:
        """Return the selection with the ids of the databases that have the wanted names."""
        selection = self.selection
        for wanted in self.db_names:
            ids = (id_ for id_, name in names.items() if clean_text(name) in wanted)
            selection = replace(selection, db_ids=_both(selection.db_ids, ids))
        return selection


class Pushdown(Struct, frozen=True):
    """Facts that decide which conditions can be pushed.

    Attributes:
        signed_lsns: True if some LSNs of the log are negative as int64, and so sort differently.
        mode: form in which keys are shown, which is what Spark compares.
    """

    signed_lsns: bool
    mode: DataMode

    def push(self, narrowed: Narrowed, condition: Condition) -> tuple[Narrowed, bool]:
        """Narrow the read by a condition; also return True if Spark need not check it again."""
        column = condition.column
        if condition.operator == "is not null" and column in NEVER_NULL and not condition.negated:
            return narrowed, True
        if column in ("file_no", "version") and condition.compares(int):
            return replace(narrowed, files=(*narrowed.files, condition)), True
        if column == "type" and condition.compares(str):
            held = frozenset(no for no in range(256) if condition.holds(type_name(no)))
            return _with(narrowed, types=_both(narrowed.selection.types, held)), True
        if column == "replicated" and condition.compares(bool):
            return _replicated(narrowed, condition)
        if column == "vlsn":
            return _vlsn(narrowed, condition)
        if condition.negated:
            return narrowed, False
        if column == "lsn" and not self.signed_lsns:
            return _bounded(narrowed, condition, "from_lsn", "to_lsn")
        return self._push_payload(narrowed, condition), False

    def _push_payload(self, narrowed: Narrowed, condition: Condition) -> Narrowed:
        selection = narrowed.selection
        values = _equal_to(condition)
        if values is None:
            return narrowed
        if condition.column == "db_id" and condition.compares(int):
            return _with(narrowed, db_ids=_both(selection.db_ids, values))
        if condition.column == "txn_id" and condition.compares(int):
            return _with(narrowed, txn_ids=_both(selection.txn_ids, values))
        if condition.column == "db_name" and condition.compares(str):
            return replace(narrowed, db_names=(*narrowed.db_names, frozenset(values)))
        is_key = condition.column == "key" and self.mode is DataMode.SHOW
        # An entry passes with any key of a selection, so these cannot be combined with an option's.
        if is_key and values and not selection.keys and condition.compares(bytes, bytearray):
            keys = tuple(KeyPattern(bytes(value), whole=True) for value in values)
            return _with(narrowed, keys=keys)
        return narrowed


def _with(narrowed: Narrowed, **changes: Any) -> Narrowed:
    return replace(narrowed, selection=replace(narrowed.selection, **changes))


def _both(one: frozenset[Any] | None, other: Iterable[Any]) -> frozenset[Any]:
    """Intersect two sets; None stands for everything."""
    return frozenset(other) if one is None else one & frozenset(other)


def _equal_to(condition: Condition) -> tuple[Any, ...] | None:
    """Return the values of which one must be equal, or None for any other condition."""
    if condition.operator == "in":
        return tuple(value for value in condition.value if value is not None)
    is_equal = condition.operator in ("=", "<=>") and condition.value is not None
    return (condition.value,) if is_equal else None


def _replicated(narrowed: Narrowed, condition: Condition) -> tuple[Narrowed, bool]:
    held = {value for value in (True, False) if condition.holds(value)}
    if held == {True}:
        return _with(narrowed, replicated=True), True
    if not held:
        return _with(narrowed, types=frozenset()), True
    return narrowed, held == {True, False}


def _vlsn(narrowed: Narrowed, condition: Condition) -> tuple[Narrowed, bool]:
    """Narrow by a condition on the VLSN; an entry without one fails every comparison."""
    if condition.operator == "is not null" and not condition.negated:
        return _bound(narrowed, "from_vlsn", max, VLSN_MIN), True
    if condition.negated:
        return narrowed, False
    return _bounded(narrowed, condition, "from_vlsn", "to_vlsn")


def _bounded(
    narrowed: Narrowed, condition: Condition, low: str, high: str
) -> tuple[Narrowed, bool]:
    """Narrow by the bounds that a condition sets; also return True if they cover all of it."""
    values = _equal_to(condition)
    if values is not None and all(type(value) is int for value in values):
        if not values:
            return _with(narrowed, types=frozenset()), True
        narrowed = _bound(narrowed, low, max, min(values))
        return _bound(narrowed, high, min, max(values)), min(values) == max(values)
    if condition.operator not in (">", ">=", "<", "<=") or not condition.compares(int):
        return narrowed, False
    value = condition.value
    if condition.operator in (">", ">="):
        return _bound(narrowed, low, max, value + (condition.operator == ">")), True
    return _bound(narrowed, high, min, value - (condition.operator == "<")), True


def _bound(
    narrowed: Narrowed, name: str, tighter: Callable[[int, int], int], value: int
) -> Narrowed:
    known = getattr(narrowed.selection, name)
    return _with(narrowed, **{name: value if known is None else tighter(known, value)})


def has_signed_lsns(files: Iterable[LogFile]) -> bool:
    """Return True if some LSNs of these files are negative as int64."""
    return any(file.file_no >= SIGNED_FILES for file in files)
