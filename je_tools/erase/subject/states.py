"""States of traces: the kind of a hit in an entry, and what keeps it from erasure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from je_tools.erase.proof.hit_places import Where
from je_tools.erase.reasons import EraseReason, KeepReason
from je_tools.erase.subject.traces import TraceState
from je_tools.formats.je.btree.nodes import TRANSIENT
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.types import BY_NAME, ENTRY_TYPES, Family

_PLACES = {
    Where.BEFORE_IMAGE: TraceState.BEFORE_IMAGE,
    Where.ABORT_KEY: TraceState.ABORT_VERSION,
    Where.ABORT_DATA: TraceState.ABORT_VERSION,
    Where.DATABASE_NAME: TraceState.DATABASE_NAME,
    Where.TRACE: TraceState.TRACE_TEXT,
    Where.ERASED: TraceState.UNFINISHED,
    Where.NO_ENTRY: TraceState.NO_ENTRY,
}
_NODE_FAMILIES = (Family.NODE, Family.OLD_DELTA)
_RECORD_FAMILIES = (Family.LN, Family.DEL_DUP_LN)
_LEVEL = 0xFFFF

_REWRITE = "`erase run --checkpoint-first --rewrite DB` writes the node anew without it"

_NEXT = {
    TraceState.LIVE_RECORD: "the record exists: delete it in the application first",
    TraceState.ABORT_VERSION: "the record around it exists: write or delete it in the application",
    TraceState.BEFORE_IMAGE: "the before-image exists until it expires",
    TraceState.SLOT: f"its node is in use: delete the record first; then {_REWRITE}",
    TraceState.DELETED_SLOT: f"its node is in use; {_REWRITE}",
    TraceState.ROUTING_KEY: "an upper node keeps the key with which its child began; when the "
    f"record is deleted, {_REWRITE}",
    TraceState.NODE_KEY: f"its node is in use; when the record is deleted, {_REWRITE}",
}
"""Reasons why traces in entries that a tree needs cannot be erased."""

_OTHER_RECORD = (
    "a record with another key has it: if that is to go too, delete it in the application, or name "
    "the text with --match"
)
OF_OTHERS = {
    TraceState.LIVE_RECORD: _OTHER_RECORD,
    TraceState.SLOT: f"{_OTHER_RECORD}; then {_REWRITE}",
}
"""Reasons why keys in live records with other keys cannot be erased."""

OUTSIDE = {
    TraceState.NO_ENTRY: "no eraser knows bytes outside of entries; `verify` says what they are",
    TraceState.DAMAGED: "the entry is damaged; `verify` lists it",
    TraceState.PUT_ASIDE: "no eraser reads the file: delete it when nobody needs it any more",
    TraceState.ELSEWHERE: "it is the log of another environment, or a copy: erase there, or delete "
    "it",
    TraceState.JOURNAL: "a change can be undone by it; `undo --drop all --apply` removes it",
    TraceState.OTHER_FILE: "it is no log file: rotate it, or remove the text",
    TraceState.FILE_NAME: "rename the file",
}
"""Reasons why traces outside of readable entries cannot be erased."""


def state_of(
    where: Where,
    type_no: int,
    reason: EraseReason | KeepReason,
    level: int,
    slot: Mapping[str, Any] | None,
) -> TraceState:
    """Return the kind of the trace that a hit in an entry is.

    Args:
        where: kind of the place.
        type_no: type of the entry.
        reason: reason to erase the entry or to leave it.
        level: level of a node, with the bits that logs set in it.
        slot: slot of a node in which the hit is; None for none.
    """
    if where in _PLACES:
        return _PLACES[where]
    family = ENTRY_TYPES[type_no].family if type_no in ENTRY_TYPES else None
    if family in _RECORD_FAMILIES:
        return TraceState.LIVE_RECORD if reason is KeepReason.LIVE else TraceState.OLD_RECORD
    if family not in _NODE_FAMILIES:
        return TraceState.OTHER_ENTRY
    if reason is not KeepReason.LIVE:
        return TraceState.OLD_NODE
    if slot is None:
        return TraceState.NODE_KEY
    is_upper = type_no == BY_NAME["IN"].no or level & _LEVEL > 1
    if is_upper:
        return TraceState.ROUTING_KEY
    state = slot["state"] & ~TRANSIENT
    gone = state & (SlotState.KNOWN_DELETED | SlotState.PENDING_DELETED)
    return TraceState.DELETED_SLOT if gone else TraceState.SLOT


def reason_text(state: TraceState, reason: EraseReason | KeepReason) -> str:
    """Return the reason to erase an entry, or what prevents that, as text."""
    if reason is KeepReason.LIVE:
        return _NEXT.get(state, reason.text)
    if reason is KeepReason.RECOVERY:
        return f"{reason.text}; `erase run --checkpoint-first` erases it then"
    if reason is KeepReason.LAST_FILE:
        return f"{reason.text}; with `--checkpoint-first` another file is begun before"
    if reason is KeepReason.ENTRY_TYPE:
        return f"{reason.text}: it goes with its file, when the cleaner deletes that"
    return reason.text
