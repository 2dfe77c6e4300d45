"""Aspects of an environment, each with a state: what was examined, and what was not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.core.escaping import counted
from je_tools.doctor.facts import Condition, State, Surroundings, worst_state
from je_tools.doctor.replication_conditions import replication_conditions
from je_tools.doctor.verdict import OF_CONTENT, OF_HEADER, OF_ORIGIN, Evidence, is_tree_code
from je_tools.findings import Severity
from je_tools.recovery.end import EndReason
from je_tools.writing.lock import LockMode

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.space.usage import DiskUse

_NAMED = 3
"""Largest number of files or places that a text names."""

_ENDS = {
    EndReason.CLEAN: "whole: the log ends with its last entry",
    EndReason.ZEROS: "zeros follow the last entry: space that was never written",
    EndReason.TORN: "an incomplete entry follows the last one, as a crash leaves it",
    EndReason.DAMAGED: "the log ends at damage, and whole entries follow it",
}


def conditions_of(evidence: Evidence) -> Iterator[Condition]:
    """Yield the aspects of a log that could be opened."""
    yield _bytes(evidence)
    yield _end(evidence)
    yield _files(evidence)
    yield _origin(evidence)
    yield _trees(evidence)
    yield from replication_conditions(evidence)
    yield _versions(evidence)
    yield from surrounding_conditions(evidence.surroundings, _disk_of(evidence))


def surrounding_conditions(surroundings: Surroundings, disk: DiskUse | None) -> Iterator[Condition]:
    """Yield the aspects that do not need a log."""
    yield _lock(surroundings)
    yield from _disk(disk)
    yield _settings(surroundings)
    yield _markers(surroundings)
    if surroundings.interrupted is not None or surroundings.undo_count:
        state = State.ERROR if surroundings.interrupted is not None else State.NOTE
        text = surroundings.interrupted or counted(surroundings.undo_count, "undo journal")
        yield Condition("je-tools", state, text)


def _findings_of(evidence: Evidence, codes: frozenset[str]) -> list[Finding]:
    return [found for found in evidence.findings if found.code in codes]


def _bytes(evidence: Evidence) -> Condition:
    totals = evidence.log.totals
    read = ", ".join(
        (
            counted(totals.files, "file"),
            counted(totals.size, "byte"),
            f"{totals.entries:,} good {'entry' if totals.entries == 1 else 'entries'}",
        )
    )
    errors = [
        found
        for found in _findings_of(evidence, OF_CONTENT | OF_HEADER)
        if found.severity is Severity.ERROR
    ]
    if not errors:
        return Condition("checksums", State.OK, f"right in {read}")
    places = [found.where for found in errors[:_NAMED] if found.where]
    more = f", and {len(errors) - _NAMED:,} more" if len(errors) > _NAMED else ""
    size = f" ({counted(totals.damaged_size, 'byte')} damaged)" if totals.damaged_size else ""
    text = f"damage at {'; '.join(places)}{more}{size}; read: {read}"
    return Condition("checksums", State.ERROR, text)


def _end(evidence: Evidence) -> Condition:
    state = evidence.state
    if state is None:
        return Condition("end", State.UNKNOWN, "not known, because there is no root")
    reason = state.end.reason
    kind = {EndReason.CLEAN: State.OK, EndReason.DAMAGED: State.ERROR}.get(reason, State.NOTE)
    tail = _findings_of(evidence, frozenset({"torn-tail", "zero-tail"}))
    kind = State.ERROR if worst_state(tail) is State.ERROR else kind
    size = f" ({counted(state.lost.size, 'byte')})" if state.lost.size else ""
    return Condition("end", kind, f"{_ENDS.get(reason, reason.value)}{size}")


def _files(evidence: Evidence) -> Condition:
    environment, state = evidence.environment, evidence.state
    missing = _findings_of(evidence, frozenset({"missing-file", "unreadable-file"}))
    if state is not None and state.plan.missing:
        listed = ", ".join(f"{number:08x}.jdb" for number in state.plan.missing[:_NAMED])
        more = len(state.plan.missing) - _NAMED
        text = f"in use, and missing or empty: {listed}" + (f", and {more:,} more" * (more > 0))
        return Condition("files", State.ERROR, text)
    if environment.unreadable:
        listed = ", ".join(f"{file.path.name} ({file.reason})" for file in environment.unreadable)
        return Condition("files", State.ERROR, f"cannot be read: {listed}")
    worst = worst_state(missing)
    if worst is State.ERROR:
        return Condition("files", worst, f"missing: {'; '.join(f.where for f in missing[:_NAMED])}")
    absent = sum(last - first + 1 for first, last in environment.absent)
    if state is None:
        text = "not known whether files are missing, because there is no root"
        return Condition("files", State.UNKNOWN, text)
    text = "no file in use is missing, by the engine's own counts"
    if absent:
        text += f"; {counted(absent, 'number')} without a file, as the cleaner leaves them"
    return Condition("files", State.OK, text)


def _origin(evidence: Evidence) -> Condition:
    found = [
        each for each in _findings_of(evidence, OF_ORIGIN) if each.severity is not Severity.NOTE
    ]
    if found:
        places = "; ".join(f"{each.code} at {each.where}" for each in found[:_NAMED])
        return Condition("origin", worst_state(found), f"files do not fit together: {places}")
    text = "no sign of files of another log; headers, links between files and VLSNs were compared"
    return Condition("origin", State.OK, text)


def _trees(evidence: Evidence) -> Condition:
    state = evidence.state
    found = [each for each in evidence.findings if is_tree_code(each.code)]
    if found:
        text = f"{counted(len(found), 'finding')}; see below"
        return Condition("B-trees", worst_state(found), text)
    if state is None:
        return Condition("B-trees", State.UNKNOWN, "no root leads to them")
    if state.has_trees:
        return Condition("B-trees", State.OK, "every node, slot and record was checked")
    if state.missing is None:
        return Condition("B-trees", State.UNKNOWN, "not checked; --tree checks them")
    text = "every slot leads to an entry; --tree checks the rest"
    return Condition("B-trees", State.UNKNOWN, text)


def _versions(evidence: Evidence) -> Condition:
    releases = evidence.releases
    if not releases.versions:
        return Condition("version", State.UNKNOWN, "no file header is good")
    listed = ", ".join(map(str, releases.versions))
    text = f"log version {listed}, written by JE {releases.written_by}"
    is_old = bool(releases.not_opened_by)
    return Condition("version", State.WARNING if is_old else State.OK, text)


def _lock(surroundings: Surroundings) -> Condition:
    if surroundings.lock_problem is not None:
        return Condition("lock", State.UNKNOWN, surroundings.lock_problem)
    if not surroundings.holders:
        return Condition("lock", State.OK, "no process has the environment open")
    texts = [f"{each.text}: {each.mode.value}" for each in surroundings.holders]
    is_written = any(each.mode is LockMode.READ_WRITE for each in surroundings.holders)
    return Condition("lock", State.WARNING if is_written else State.NOTE, "; ".join(texts))


def _disk_of(evidence: Evidence) -> DiskUse | None:
    state = evidence.state
    return state.space.disk if state is not None else evidence.surroundings.disk


def _disk(disk: DiskUse | None) -> Iterator[Condition]:
    if disk is None or disk.free_size is None or disk.available_size is None:
        yield Condition("disk", State.UNKNOWN, "the free space is not known")
        return
    limits = f"je.freeDisk keeps {counted(disk.free_disk, 'byte')} free"
    if disk.max_disk:
        limits += f", je.maxDisk is {counted(disk.max_disk, 'byte')}"
    text = f"{counted(disk.free_size, 'byte')} free; {limits}"
    if not disk.free_size:
        yield Condition("disk", State.WARNING, f"the disk is full; {limits}")
    elif disk.prohibits_writes:
        yield Condition("disk", State.WARNING, f"{text}: the engine would allow no writes")
    else:
        yield Condition("disk", State.OK, text)


def _settings(surroundings: Surroundings) -> Condition:
    if surroundings.refused_settings:
        return Condition("settings", State.ERROR, "; ".join(surroundings.refused_settings))
    if surroundings.settings_problem is not None:
        text = f"je.properties cannot be read: {surroundings.settings_problem}"
        return Condition("settings", State.UNKNOWN, text)
    text = "je.properties has nothing that the engine refuses; settings of programs are not known"
    return Condition("settings", State.OK, text)


def _suffix(name: str) -> str:
    """Return the suffix after a log file's number, without a number after that."""
    return Path(name).name.split(".")[1].lower()


def _markers(surroundings: Surroundings) -> Condition:
    aside = surroundings.put_aside
    texts = ["7fffffff.jdb: the log must be restored first"] * surroundings.is_marked
    for suffix in dict.fromkeys(_suffix(name) for name in aside):
        named = [name for name in aside if _suffix(name) == suffix]
        more = f", and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
        texts.append(f"put aside: {', '.join(named[:_NAMED])}{more}")
    if not texts:
        return Condition("markers", State.OK, "none, and no file was put aside")
    state = State.ERROR if surroundings.is_marked else State.NOTE
    return Condition("markers", state, "; ".join(texts))
