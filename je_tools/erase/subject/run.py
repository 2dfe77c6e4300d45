"""`erase subject`: search for a person's data, and judge each trace."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from je_tools.erase.judging import judge_contents
from je_tools.erase.plan import plan_erasure
from je_tools.erase.proof.file_tree import SearchedKind
from je_tools.erase.proof.hit_places import EntryFields, Where
from je_tools.erase.proof.needles import NeedleSearch
from je_tools.erase.proof.run import LISTED_MAX, name_hits, search_tree
from je_tools.erase.proof.search_results import NeedleFacts
from je_tools.erase.reasons import FIRST_ERASE, REASONS
from je_tools.erase.subject.states import OF_OTHERS, OUTSIDE, reason_text, state_of
from je_tools.erase.subject.traces import IN_NODES, SubjectReport, Trace, TraceState
from je_tools.erase.subject.values import ORIGIN, key_at, value_needles
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import type_name

if TYPE_CHECKING:
    from je_tools.erase.options import ErasureOptions
    from je_tools.erase.plan import ErasurePlan
    from je_tools.erase.proof.log_search import LogSearch
    from je_tools.erase.proof.run import FileSearch, ProofOptions, SearchedTree
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot

_FILE_STATES = {
    SearchedKind.LOG: TraceState.PUT_ASIDE,
    SearchedKind.PUT_ASIDE: TraceState.PUT_ASIDE,
    SearchedKind.ELSEWHERE: TraceState.ELSEWHERE,
    SearchedKind.JOURNAL: TraceState.JOURNAL,
    SearchedKind.OTHER: TraceState.OTHER_FILE,
}


def find_subject(
    snapshot: Snapshot,
    search: NeedleSearch,
    db_ids: Collection[int] | None,
    options: ProofOptions,
    erasure: ErasureOptions,
) -> SubjectReport:
    """Find all traces below the home of an environment, and judge each; write nothing.

    Args:
        snapshot: the log as recovery leaves it.
        search: literals and patterns.
        db_ids: databases in which keys count; None for all.
        options: options of the search.
        erasure: options of the erasure that would follow.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file of the log cannot be read.
    """
    home = snapshot.environment.files[0].home
    found = search_tree(home, search, options)
    values, facts = value_needles(found, db_ids)
    if values:
        found = search_tree(home, NeedleSearch([*search.needles, *values]), options)
    plan = plan_erasure(snapshot, erasure)
    tracer = _Tracer(snapshot, found, plan, db_ids)
    traces = [*_name_traces(found), *tracer.traces()]
    gaps = [(found.shown(each.file.name), text) for each in found.files for text in each.problems]
    gaps += [(found.shown(each.name), each.reason) for each in found.tree.not_read if each.may_hold]
    counts = found.counts()
    return SubjectReport(
        env=found.shown(str(home)),
        needles=[
            NeedleFacts(i + 1, each.name(options.masking), each.origin, each.kind, each.size, count)
            for i, (each, count) in enumerate(
                zip(found.search.needles, counts.tolist(), strict=True)
            )
        ],
        traces=traces,
        hit_count=int(counts.sum()) - tracer.other_count,
        other_count=tracer.other_count,
        values=facts,
        obstacles=plan.obstacles,
        gaps=gaps,
        search=found.search,
        db_ids=frozenset(tracer.db_ids),
    )


def _name_traces(found: SearchedTree) -> Iterator[Trace]:
    for hit in name_hits(found):
        yield _outside(hit.file, None, hit.size, hit.where, TraceState.FILE_NAME, hit.needle)


def _outside(
    file: str, offset: int | None, size: int, where: Where, state: TraceState, needle: int
) -> Trace:
    """Return a trace outside of readable entries."""
    text = OUTSIDE[state]
    return Trace(
        file=file,
        offset=offset,
        size=size,
        lsn=None,
        type=None,
        db=None,
        where=where,
        state=state,
        can_erase=False,
        reason=text,
        needle=needle,
    )


class _Tracer:
    """Converter of hits in files into traces.

    Attributes:
        other_count: hits of keys in databases that were not asked for.
        db_ids: databases with traces in their present nodes.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        found: SearchedTree,
        plan: ErasurePlan,
        db_ids: Collection[int] | None,
    ) -> None:
        self.other_count = 0
        self.db_ids: set[int] = set()
        self._snapshot = snapshot
        self._found = found
        self._plan = plan
        self._db_ids = db_ids
        self._file_nos = {file.path: file.file_no for file in snapshot.environment.files}
        keys = [each for each in found.search.needles if each.is_key]
        self._keys = {each.value for each in keys if not each.is_prefix}
        self._key_starts = tuple(each.value for each in keys if each.is_prefix)
        self._deleted = {file.file_no for file in plan.deleted}
        self._reasons = self._entry_reasons()

    def traces(self) -> Iterator[Trace]:
        """Yield the traces in all files, at most LISTED_MAX, in the order of the files."""
        room = LISTED_MAX
        for each in self._found.files:
            is_own = each.log is not None and each.file.path in self._file_nos
            traces = self._in_log(each, each.log) if is_own and each.log else self._in_other(each)
            for trace in traces:
                if not room:
                    # Those that are not listed may be in the nodes of any database.
                    self.db_ids.update(self._snapshot.databases)
                    return
                room -= 1
                yield trace

    def _entry_reasons(self) -> Mapping[int, Mapping[int, int]]:
        """Return the reason of each entry with hits, by file number and offset."""
        wanted = {
            self._file_nos[each.file.path]: np.unique(
                np.concatenate((each.log.hit_entry, each.log.joined.entry_offset))
            )
            for each in self._found.files
            if each.log is not None and each.hit_count and each.file.path in self._file_nos
        }

        def reasons_of(rows: Rows) -> tuple[int, dict[int, int]]:
            asked = wanted.get(rows.file_no)
            if asked is None:
                return rows.file_no, {}
            rows = rows.select(np.isin(rows.offset, asked) & rows.good)
            judged = judge_contents(rows, self._plan.rules)
            return rows.file_no, dict(zip(rows.offset.tolist(), judged.tolist(), strict=True))

        result: dict[int, dict[int, int]] = {}
        for part in self._snapshot.scanner.scan(self._snapshot.environment, reasons_of):
            for file_no, reasons in part.results:
                result.setdefault(file_no, {}).update(reasons)
        return result

    def _in_other(self, each: FileSearch) -> Iterator[Trace]:
        name, state = self._found.shown(each.file.name), _FILE_STATES[each.file.kind]
        where = {
            TraceState.JOURNAL: Where.JOURNAL,
            TraceState.OTHER_FILE: Where.OTHER_FILE,
        }.get(state, Where.RAW)
        hits = [*zip(each.raw.start, each.raw.size, each.raw.needle, strict=True)]
        if each.log is not None:
            joined = each.log.joined
            hits += zip(joined.offset, joined.size, joined.needle, strict=True)
        for start, size, needle in hits:
            yield _outside(name, int(start), int(size), where, state, int(needle) + 1)

    def _in_log(self, each: FileSearch, log: LogSearch) -> Iterator[Trace]:
        fields = EntryFields(log.log, self._found.duplicates)
        raw, joined = each.raw, log.joined
        types = {
            entry: fields.type_no_at(entry) for entry in np.unique(joined.entry_offset).tolist()
        }
        hits = [
            *zip(log.hit_entry, log.hit_type, raw.start, raw.size, raw.needle, strict=True),
            *(
                (entry, types[int(entry)], start, size, needle)
                for entry, start, size, needle in zip(
                    joined.entry_offset, joined.offset, joined.size, joined.needle, strict=True
                )
            ),
        ]
        try:
            for i, row in enumerate(hits):
                entry, type_no, start, size, needle = (int(value) for value in row)
                where = Where.PREFIXED_KEY
                if i < len(raw.start):
                    where = fields.place(entry, type_no, start, start + size)
                if trace := self._trace(each, fields, (entry, type_no, start, size, needle), where):
                    yield trace
        finally:
            fields.close()

    def _trace(
        self,
        each: FileSearch,
        fields: EntryFields,
        hit: tuple[int, int, int, int, int],
        where: Where,
    ) -> Trace | None:
        """Return the trace of a hit; None if it is a key in a database not asked for."""
        entry, type_no, start, size, needle = hit
        name, file_no = self._found.shown(each.file.name), self._file_nos[each.file.path]
        if entry == NO_OFFSET:
            return _outside(name, start, size, where, TraceState.NO_ENTRY, needle + 1)
        fields.load(entry)
        db_id = fields.value_of("db_id")
        if self._is_other(db_id, needle):
            self.other_count += 1
            return None
        state, can_erase, text = self._judged(file_no, entry, type_no, start, fields, where)
        if state in OF_OTHERS and self._is_of_others(fields, start, needle):
            text = OF_OTHERS[state]
        if db_id is not None and state in IN_NODES:
            self.db_ids.add(db_id)
        lsn = file_no << 32 | entry
        db = None if db_id is None else self._name_of(db_id)
        return Trace(
            file=name,
            offset=start,
            size=size,
            lsn=lsn,
            type=type_name(type_no),
            db=db,
            where=where,
            state=state,
            can_erase=can_erase,
            reason=text,
            needle=needle + 1,
        )

    def _judged(
        self, file_no: int, entry: int, type_no: int, start: int, fields: EntryFields, where: Where
    ) -> tuple[TraceState, bool, str]:
        """Return the state of a hit in an entry, whether it can be erased, and why."""
        number = self._reasons.get(file_no, {}).get(entry)
        if number is None:
            state = TraceState.DAMAGED
            return state, False, OUTSIDE[state]
        reason = REASONS[number]
        state = state_of(
            where, type_no, reason, fields.value_of("level") or 0, fields.slot_at(start)
        )
        if file_no in self._deleted:
            return state, not self._plan.obstacles, "its file is reserved, and is deleted whole"
        can_erase = number >= FIRST_ERASE
        if can_erase and self._plan.obstacles:
            return state, False, self._plan.obstacles[0].text
        return state, can_erase, reason_text(state, reason)

    def _is_of_others(self, fields: EntryFields, start: int, needle: int) -> bool:
        """Return True if a key, or a value of its record, was found in another key's record."""
        needles = self._found.search.needles
        if not (needles[needle].is_key or needles[needle].origin == ORIGIN):
            return False
        key = key_at(fields, start, self._found.duplicates)
        return key not in self._keys and not key.startswith(self._key_starts)

    def _is_other(self, db_id: int | None, needle: int) -> bool:
        if self._db_ids is None or db_id is None or db_id in self._db_ids:
            return False
        return self._found.search.needles[needle].is_key

    def _name_of(self, db_id: int) -> str:
        database = self._snapshot.databases.get(db_id)
        name = database.name if database is not None else None
        return f"id:{db_id}" if name is None else self._found.shown(name)
