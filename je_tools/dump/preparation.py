"""Preparation of a dump: names of databases and times, which may take a pass over the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.dump.entries import read_names_and_times
from je_tools.log.name_search import NameSearch
from je_tools.log.selection import Selection, database_ids
from je_tools.verify.judge import Judge

if TYPE_CHECKING:
    from je_tools.log.entry_table import EntryTable
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.log.scan_options import Progress
    from je_tools.verify.totals import Totals


class Preparation(Struct, frozen=True):
    """Results of the preparation, before anything is shown.

    Attributes:
        selection: the selection, with everything that had to be read for it.
        names: database names by id; more may be added.
        look_up: finds the database names of some entries; None if all names are known.
        judge: judge that must see the log while it is dumped; None if no judge can.
        judged: totals of the whole log, if a pass has read it; else None.
    """

    selection: Selection
    names: dict[int, str]
    look_up: Callable[[EntryTable], None] | None = None
    judge: Judge | None = None
    judged: Totals | None = None


def prepare(
    environment: Environment,
    selection: Selection,
    scanner: Scanner,
    totals: Totals,
    *,
    databases: Sequence[str] = (),
    is_partial: bool = False,
    follow: bool = False,
    bar: Callable[[], AbstractContextManager[Progress | None]] = nullcontext,
) -> Preparation:
    """Read what must be known before a dump.

    If that is the whole log, it is judged at the same time. A dump that is limited, goes backward,
    follows, or leaves out files judges only what it reads.

    Args:
        environment: the log.
        selection: the wanted entries, without databases and times.
        scanner: options of the scan.
        totals: filled by the judge.
        databases: names and ids of the wanted databases; empty for all.
        is_partial: True if the dump is limited or goes backward.
        follow: True if the dump continues as the log grows.
        bar: opens the progress bar of a pass over the log.

    Raises:
        UsageError: the log has no such database, and is not followed.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    judge = None if follow else Judge(environment, totals)
    if not (databases or follow or selection.needs_times):
        search = NameSearch(environment, scanner)
        search.read_last()
        sees_all = not (is_partial or selection.bounds_lsns)
        return Preparation(
            selection, search.names, search.look_up, judge=judge if sees_all else None
        )
    with bar() as progress:
        shown = replace(scanner, progress=progress)
        prepared = read_names_and_times(environment, selection, shown, judge)
    chosen = prepared.selection
    if databases:
        ids = database_ids(databases, prepared.names, must_exist=not follow)
        chosen = replace(chosen, db_ids=ids)
    judged = totals if judge is not None else None
    return Preparation(chosen, dict(prepared.names), judged=judged)
