"""Judgement of entries: for each entry of a log, the reason to erase it or to leave it.

Source: je-log.md "Data eraser"; DataEraser.eraseEntry, JE 25.3.17. The engine looks up every entry
in its tree; here the entries that trees need are known as a set, which gives the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.erase.reasons import FIRST_ERASE, NUMBER_OF, REASONS, EraseReason, KeepReason
from je_tools.formats.je.entry.columns import MAX_ROWS, decode
from je_tools.formats.je.expirations import NEVER, expiration_ms
from je_tools.formats.je.flags import LnFlag
from je_tools.formats.je.log.erased import unfinished_rows
from je_tools.formats.je.log.walk import erased_no
from je_tools.formats.je.types import BY_NAME, ENTRY_TYPES, ERASED_NO, Family, mask_of
from je_tools.formats.je.write.blanking import blanking_of

if TYPE_CHECKING:
    from je_tools.erase.needed_entries import NeededEntries
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.entry.columns import Columns
    from je_tools.formats.je.log.entry_rows import Rows

VERSION_MIN = 8
"""First log version whose entries are overwritten; no engine has checked erasures of older ones."""

IN_KIND_BELOW = ENTRY_TYPES[ERASED_NO].first_version
"""First log version with entries of type Erased; files of older versions are erased in kind."""

_IS_LN = mask_of(
    each.no for each in ENTRY_TYPES.values() if each.user_ln and each.family is Family.LN
)
_IS_DELETION = mask_of(
    each.no for each in ENTRY_TYPES.values() if each.user_ln and each.name.startswith("DEL_")
)
_NODE_REASONS = np.zeros(256, np.uint8)
for _name, _reason in (
    ("IN", EraseReason.OLD_IN),
    ("BIN", EraseReason.OLD_BIN),
    ("NewBINDelta", EraseReason.OLD_DELTA),
    ("BINDelta", EraseReason.OLD_DELTA),
):
    _NODE_REASONS[BY_NAME[_name].no] = NUMBER_OF[_reason]

_FAMILIES = (
    (Family.LN, _IS_LN),
    (Family.NODE, mask_of(BY_NAME[name].no for name in ("IN", "BIN", "NewBINDelta"))),
    (Family.OLD_DELTA, mask_of([BY_NAME["BINDelta"].no])),
)
_IS_CANDIDATE = _IS_LN | _FAMILIES[1][1] | _FAMILIES[2][1]
_FIELDS = {
    Family.LN: frozenset({"db_id", "flags", "expiration"}),
    Family.NODE: frozenset({"db_id"}),
    Family.OLD_DELTA: frozenset({"db_id"}),
}

Reasons = npt.NDArray[np.uint8]
"""Column of reasons: uint8 indexes into `REASONS`."""


class ErasureRules(Struct, frozen=True):
    """Rules that decide which entries of a log may be overwritten.

    Attributes:
        cutoff_lsn: entries from this LSN on stay: recovery may read them.
        tail_lsn: entries from this LSN on can be overwritten only after a checkpoint.
        needed: entries that trees need.
        db_ids: int64, ascending; ids of the databases that exist.
        duplicates_ids: int64, ascending; ids of databases with duplicates.
        unordered_ids: int64, ascending; ids of databases whose changes since the last checkpoint
            cannot be put in order.
        last_file_no: number of the last file, which stays before log version 17.
        now_ms: time at which records expire.
        vlsn_min: first VLSN that stays; None if the log has no VLSN index.
        kept_files: files that stay as they are, by number, with the reason.
        interrupted: numbers of files whose erased entries are overwritten once more.
    """

    cutoff_lsn: int
    tail_lsn: int
    needed: NeededEntries
    db_ids: Ints
    duplicates_ids: Ints
    unordered_ids: Ints
    last_file_no: int
    now_ms: int
    vlsn_min: int | None = None
    kept_files: Mapping[int, KeepReason] = field(default_factory=dict)
    interrupted: frozenset[int] = frozenset()


class ReasonTotals(Struct):
    """Entries and bytes by reason.

    Attributes:
        counts, sizes: int64 (len(REASONS),); sizes include headers.
        tail_count: entries to overwrite for which a checkpoint has to be written first.
        held_count: entries of any type that trees, recovery or other nodes need; only counted in
            files that the cleaner has reserved.
    """

    counts: Ints = field(default_factory=lambda: np.zeros(len(REASONS), np.int64))
    sizes: Ints = field(default_factory=lambda: np.zeros(len(REASONS), np.int64))
    tail_count: int = 0
    held_count: int = 0

    @classmethod
    def of(cls, rows: Rows, reasons: Reasons, rules: ErasureRules) -> ReasonTotals:
        """Count entries."""
        counts = np.bincount(reasons, minlength=len(REASONS))
        sizes = np.bincount(reasons, weights=rows.size, minlength=len(REASONS))
        # Entries that are marked already may be overwritten anywhere.
        in_tail = (reasons >= FIRST_ERASE) & (reasons != NUMBER_OF[EraseReason.UNFINISHED])
        in_tail &= rows.lsn >= rules.tail_lsn
        return cls(counts, sizes.astype(np.int64), int(np.count_nonzero(in_tail)))

    def merge(self, other: ReasonTotals) -> None:
        """Add the counts of other entries."""
        self.counts = self.counts + other.counts
        self.sizes = self.sizes + other.sizes
        self.tail_count += other.tail_count
        self.held_count += other.held_count

    @property
    def erase_count(self) -> int:
        """Number of entries to overwrite."""
        return int(self.counts[FIRST_ERASE:].sum())

    @property
    def erase_size(self) -> int:
        """Bytes of the entries to overwrite, headers included."""
        return int(self.sizes[FIRST_ERASE:].sum())


def rows_to_finish(rows: Rows, *, again: bool) -> Mask:
    """Return a mask of the entries that are marked as erased and still have bytes.

    Args:
        rows: entries of one file.
        again: True to return all marked entries that can have bytes, even if zeros are read there,
            since these may not be on the disk.
    """
    marked: Mask
    if again:
        marked = (rows.type == erased_no(rows.version)) & (rows.item_size > 0)
    else:
        marked = np.zeros(len(rows), np.bool_)
        marked[unfinished_rows(rows)] = True
    return marked


def count_held(rows: Rows, rules: ErasureRules) -> int:
    """Return the number of entries, of any type, that trees, recovery or other nodes need."""
    held = rules.needed.contains(rows.file_no, rows.offset) | (rows.lsn >= rules.cutoff_lsn)
    if rules.vlsn_min is not None:
        held |= rows.has_vlsn & (rows.vlsn >= rules.vlsn_min)
    return int(np.count_nonzero(held))


def rows_to_erase(rows: Rows, rules: ErasureRules) -> Rows:
    """Return the entries to overwrite; see `judge`, which takes longer and says why."""
    return rows.select(judge(rows, rules, explain=False) >= FIRST_ERASE)


def judge(rows: Rows, rules: ErasureRules, *, explain: bool = True) -> Reasons:
    """Return the reason to erase or to leave each entry.

    Args:
        rows: entries of one file, all with right checksums.
        rules: the rules.
        explain: False if any reason to erase an entry will do. Then contents are decoded only where
            the decision depends on them.
    """
    reasons = np.full(len(rows), NUMBER_OF[KeepReason.ENTRY_TYPE], np.uint8)
    reasons[rows.type == erased_no(rows.version)] = NUMBER_OF[KeepReason.ERASED]
    unfinished = rows_to_finish(rows, again=rows.file_no in rules.interrupted)
    reasons[unfinished] = NUMBER_OF[EraseReason.UNFINISHED]
    candidates = np.flatnonzero(_IS_CANDIDATE[rows.type])
    whole = rules.kept_files.get(rows.file_no)
    if whole is None and rows.version < VERSION_MIN:
        whole = KeepReason.OLD_VERSION
    if whole is None and rows.version < IN_KIND_BELOW and rows.file_no == rules.last_file_no:
        whole = KeepReason.LAST_FILE
    if whole is not None:
        reasons[candidates] = reasons[unfinished] = NUMBER_OF[whole]
        return reasons
    kept = _kept(rows, rules)[candidates]
    reasons[candidates] = kept
    left = candidates[kept == NUMBER_OF[KeepReason.ENTRY_TYPE]]
    if explain or len(rules.unordered_ids):
        reasons[left] = _unneeded(rows.select(left), rules)
    else:
        reasons[left] = NUMBER_OF[EraseReason.OBSOLETE]
    if rows.version < IN_KIND_BELOW:
        _leave_blank(rows, reasons, rules)
    return reasons


def judge_contents(rows: Rows, rules: ErasureRules) -> Reasons:
    """Return reasons like `judge`, but LIVE for live entries in files that stay as they are."""
    reasons = judge(rows, rules)
    reasons[_IS_CANDIDATE[rows.type] & _is_needed(rows, rules)] = NUMBER_OF[KeepReason.LIVE]
    return reasons


def _leave_blank(rows: Rows, reasons: Reasons, rules: ErasureRules) -> None:
    """Replace the reasons to erase entries that are blank, or that cannot be decoded."""
    to_erase = np.flatnonzero(reasons >= FIRST_ERASE)
    blanking = blanking_of(rows.select(to_erase), rules.duplicates_ids)
    reasons[to_erase[blanking.is_blank]] = NUMBER_OF[KeepReason.ERASED]
    reasons[to_erase[blanking.is_unknown]] = NUMBER_OF[KeepReason.UNKNOWN]


def _kept(rows: Rows, rules: ErasureRules) -> Reasons:
    """Return the reasons to keep LNs and nodes; ENTRY_TYPE stands for no reason."""
    reasons = np.full(len(rows), NUMBER_OF[KeepReason.ENTRY_TYPE], np.uint8)
    if rules.vlsn_min is not None:
        reasons[rows.has_vlsn & (rows.vlsn >= rules.vlsn_min)] = NUMBER_OF[KeepReason.VLSN]
    reasons[rows.lsn >= rules.cutoff_lsn] = NUMBER_OF[KeepReason.RECOVERY]
    reasons[_is_needed(rows, rules)] = NUMBER_OF[KeepReason.LIVE]
    return reasons


def _is_needed(rows: Rows, rules: ErasureRules) -> Mask:
    return rules.needed.contains(rows.file_no, rows.offset)


def _unneeded(rows: Rows, rules: ErasureRules) -> Reasons:
    """Return the reasons of LNs and nodes that neither trees nor recovery nor other nodes need."""
    reasons = _NODE_REASONS[rows.type]
    db_id = np.zeros(len(rows), np.int64)
    for family, is_family in _FAMILIES:
        wanted = np.flatnonzero(is_family[rows.type])
        for start in range(0, len(wanted), MAX_ROWS):
            at = wanted[start : start + MAX_ROWS]
            some = rows.select(at)
            head = decode(some, family, wanted=_FIELDS[family]).fields
            db_id[at] = head.known("db_id")
            if family is Family.LN:
                reasons[at] = _ln_reasons(some, head, rules)
    reasons[~_is_in(db_id, rules.db_ids)] = NUMBER_OF[EraseReason.REMOVED_DATABASE]
    reasons[_is_in(db_id, rules.unordered_ids)] = NUMBER_OF[KeepReason.COMPARATOR]
    return reasons


def _ln_reasons(rows: Rows, head: Columns, rules: ErasureRules) -> Reasons:
    """Return the reasons to erase LNs that nothing needs."""
    reasons = np.full(len(rows), NUMBER_OF[EraseReason.OBSOLETE], np.uint8)
    if head.has("expiration"):
        expires_ms = expiration_ms(head.known("expiration"))
        reasons[(expires_ms != NEVER) & (expires_ms < rules.now_ms)] = NUMBER_OF[
            EraseReason.EXPIRED
        ]
    embedded = head.known("flags") & LnFlag.EMBEDDED != 0
    reasons[embedded] = NUMBER_OF[EraseReason.EMBEDDED]
    reasons[_IS_DELETION[rows.type]] = NUMBER_OF[EraseReason.DELETED]
    return reasons


def _is_in(values: Ints, among: Ints) -> Mask:
    """Return a mask of the values that are in an ascending array."""
    if not len(among):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(among, values), len(among) - 1)
    found: Mask = among[at] == values
    return found
