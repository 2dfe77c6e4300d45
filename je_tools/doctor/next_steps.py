"""Commands to run next, the safest first: a copy, commands that read, dry runs, then changes.

No step uses files of another node, and none changes a log before a dry run of the same command. No
copy is made before an interrupted erasure in kind is completed, since it would keep the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.core.escaping import counted, quoted
from je_tools.core.unused_names import unused_beside
from je_tools.doctor.facts import OpenOutcome, Step, Surroundings
from je_tools.doctor.replication_steps import comparing_steps, index_repair_steps, resetting_steps
from je_tools.doctor.verdict import (
    OF_CONTENT,
    OF_FRONT_END,
    OF_GROUP,
    OF_INDEX,
    OF_JOURNALS,
    Evidence,
    is_tree_code,
)
from je_tools.findings import Severity
from je_tools.formats.je.header import FILE_HEADER_SIZE, lsn_text
from je_tools.log.file_names import log_file_no
from je_tools.log.finding_commands import next_command
from je_tools.recovery.end import EndReason, Refusal
from je_tools.writing.lock import LockMode

if TYPE_CHECKING:
    from je_tools.doctor.verdict import OpenVerdict
    from je_tools.findings import Finding

_COMMANDS_MAX = 3
"""Largest number of commands for single findings."""

_BROKEN = (OpenOutcome.UNSAFE, OpenOutcome.REFUSES, OpenOutcome.FAILS, OpenOutcome.LOSES)
_SHOWN = OF_CONTENT | OF_FRONT_END | OF_GROUP | OF_INDEX | OF_JOURNALS
_TO_CUT = {Refusal.DAMAGED_INTERVAL, Refusal.BROKEN_CHAIN}
_WITHOUT_FILE = {Refusal.MISSING_FILE, Refusal.NO_ROOT, Refusal.BAD_FILE_HEADER, Refusal.NO_FILES}


def steps_of(home: Path, evidence: Evidence, verdict: OpenVerdict) -> list[Step]:
    """Return the commands to run next for a log."""
    steps = [*_before(home, evidence, verdict)]
    if evidence.surroundings.is_erased_in_part:
        steps += _resume(home)
    elif verdict.outcome is OpenOutcome.UNSAFE:
        steps += _undo(home)
    else:
        steps += _inspections(home, evidence, verdict)
        steps += _changes(home, evidence)
        if any(found.code == "erased-not-zero" for found in evidence.findings):
            steps += _resume(home)
    first: dict[str, Step] = {}
    for step in steps:
        first.setdefault(step.command, step)
    return list(first.values())


def steps_without_log(home: Path, surroundings: Surroundings, *, is_denied: bool) -> list[Step]:
    """Return the commands to run next for a directory without a log.

    Args:
        home: the directory.
        surroundings: what lies in it.
        is_denied: True if the system did not let us read it.
    """
    word = quoted(str(home))
    if is_denied:
        return [*_as_owner(word, surroundings)]
    below = [
        Step(f"je-tools doctor {quoted(each)}", "examines a directory below with .jdb files")
        for each in surroundings.logs_below
    ]
    look = Step(f"ls -la {word}", "shows what is there: log files have names like 00000000.jdb")
    return [*below, look]


def _as_owner(word: str, surroundings: Surroundings) -> Iterator[Step]:
    yield Step(f"ls -ld {word}", "shows who may read the directory")
    if surroundings.owner is not None:
        command = f"sudo -u {quoted(surroundings.owner)} je-tools doctor {word}"
        yield Step(command, "examines it as the owner of its files")


def _before(home: Path, evidence: Evidence, verdict: OpenVerdict) -> Iterator[Step]:
    """Yield the first commands: show the writing process, copy the log, run as its owner."""
    word = quoted(str(home))
    is_written = any(each.mode is LockMode.READ_WRITE for each in evidence.surroundings.holders)
    if is_written:
        why = "shows the process that has the environment open"
        if verdict.outcome in _BROKEN:
            why += ": stop it before you copy or change anything"
        yield Step(f"je-tools lock {word}", why)
    # A copy would keep the bytes that the erasure is to overwrite. The erasure spares all others.
    if verdict.outcome in _BROKEN and not evidence.surroundings.is_erased_in_part:
        yield _copy(home, evidence)
    if any(file.path.is_file() for file in evidence.environment.unreadable):
        yield from _as_owner(word, evidence.surroundings)


def _copy(home: Path, evidence: Evidence) -> Step:
    size = evidence.environment.size
    disk = evidence.surroundings.disk
    free = disk.free_size if disk is not None else None
    word = quoted(str(home))
    if free is not None and free <= size:
        why = (
            f"keeps the log as it is; it needs {counted(size, 'byte')} and this disk has "
            f"{free:,} free, so name a directory of another disk"
        )
        return Step(f"cp -a {word} /other/disk/{quoted(home.resolve().name or 'env')}", why)
    why = f"keeps the log as it is, before anything writes to it ({counted(size, 'byte')})"
    return Step(f"cp -a {word} {quoted(unused_beside(home, 'copy'))}", why)


def _undo(home: Path) -> Iterator[Step]:
    word = quoted(str(home))
    yield Step(f"je-tools undo {word}", "shows what was interrupted, and the steps to revert it")
    yield Step(f"je-tools undo {word} --apply", "reverts it", changes=True)


def _resume(home: Path) -> Iterator[Step]:
    """Yield the commands that complete an erasure."""
    word = quoted(str(home))
    yield Step(f"je-tools erase resume {word}", "shows what an interrupted erasure has left")
    yield Step(f"je-tools erase resume {word} --apply", "overwrites it", changes=True)


def _inspections(home: Path, evidence: Evidence, verdict: OpenVerdict) -> Iterator[Step]:
    """Yield commands that only read the log, and write at most beside it."""
    word, state = quoted(str(home)), evidence.state
    refusals = set(state.plan.refusals) if state is not None else set()
    if evidence.surroundings.refused_settings:
        yield Step(f"je-tools space {word}", "shows the settings of je.properties and their limits")
    yield from _of_disk(word, evidence)
    yield from _of_lost_files(home, evidence)
    yield from _of_findings(word, evidence.findings)
    yield from index_repair_steps(word, evidence)
    if state is None:
        yield Step(f"je-tools verify {word}", "reports every damaged or missing place")
    elif state.end.reason is EndReason.DAMAGED:
        why = "lists what the engine would cut off: Commits, databases, keys"
        yield Step(f"je-tools recover {word}", why)
    if verdict.outcome is OpenOutcome.FAILS and state is not None and not state.has_trees:
        yield Step(f"je-tools doctor {word} --tree", "checks the B-trees: which records are lost")
    if refusals & _TO_CUT:
        yield from _earlier_end(word, evidence)
    if verdict.outcome in _BROKEN and not evidence.surroundings.refused_settings:
        command = f"je-tools salvage {word} --output {quoted(unused_beside(home, 'salvaged'))}"
        yield Step(command, "writes all records that survive, and a report, to a new directory")
    if verdict.outcome not in _BROKEN:
        yield from _of_health(word, evidence)
    yield from comparing_steps(word, evidence)
    if verdict.outcome not in _BROKEN:
        yield from resetting_steps(word, evidence)


def _of_lost_files(home: Path, evidence: Evidence) -> Iterator[Step]:
    """Yield commands on missing files: show a file put aside with the same number, and the loss."""
    word, state = quoted(str(home)), evidence.state
    refusals = set(state.plan.refusals) if state is not None else set(_WITHOUT_FILE)
    numbers = {*(state.plan.missing if state is not None else ())}
    numbers |= {
        number
        for found in evidence.findings
        if found.code == "missing-file" and found.severity is not Severity.NOTE
        for number in _numbers(found)
    }
    if not numbers and not refusals & _WITHOUT_FILE:
        return
    for name in evidence.surroundings.put_aside:
        if log_file_no(Path(name)) in numbers:
            why = "shows a file that was put aside and has the number of a missing one"
            yield Step(f"ls -l {quoted(str(home / name))}", why)
    if numbers:
        why = (
            "lists what is lost with the missing files; a copy of them from a backup of the same "
            "node, put back, repairs the log"
        )
        yield Step(f"je-tools missing {word}", why)


def _numbers(found: Finding) -> tuple[int, ...]:
    return () if found.file_no is None else (found.file_no,)


def _of_findings(word: str, findings: Iterable[Finding]) -> Iterator[Step]:
    """Yield the commands that show more of the first findings."""
    commands: dict[str, str] = {}
    for found in findings:
        is_shown = found.code in _SHOWN or found.code.startswith("vlsn-")
        if found.severity is Severity.NOTE or is_tree_code(found.code) or not is_shown:
            continue
        command = next_command(found.code, "ENV", found.lsn).replace(" ENV", f" {word}", 1)
        commands.setdefault(command, f"shows more of {found.code}")
    for command, why in list(commands.items())[:_COMMANDS_MAX]:
        yield Step(command, why)


def _earlier_end(word: str, evidence: Evidence) -> Iterator[Step]:
    """Yield the dry run of a cut before the first damage in the recovery interval."""
    state = evidence.state
    assert state is not None
    first = state.plan.files_needed[0]
    for found in evidence.findings:
        is_damage = found.severity is Severity.ERROR and found.code in OF_CONTENT
        offset = found.offset or 0
        if is_damage and found.file_no is not None and found.file_no >= first:
            if offset > FILE_HEADER_SIZE:
                # The log then ends with the entry that holds this byte.
                lsn = lsn_text(found.file_no << 32 | offset - 1)
                why = "shows what the log holds up to the damage, and what a cut there would lose"
                yield Step(f"je-tools recover {word} --to-lsn {lsn}", why)
            return


def _of_disk(word: str, evidence: Evidence) -> Iterator[Step]:
    """Yield the commands that show why the engine may not write."""
    state = evidence.state
    disk = state.space.disk if state is not None else evidence.surroundings.disk
    if disk is not None and disk.prohibits_writes:
        yield Step(f"je-tools space {word}", "shows the disk limits, and files that may be deleted")
        yield Step(f"df -h {word}", "shows the free space of the disk")


def _of_health(word: str, evidence: Evidence) -> Iterator[Step]:
    """Yield further examinations of a log that the engine opens."""
    state = evidence.state
    if evidence.releases.not_opened_by:
        yield Step(f"je-tools files {word}", "shows which releases open each file")
    if state is not None and not state.has_trees:
        yield Step(f"je-tools doctor {word} --tree", "also checks the B-trees, which takes longer")
    if state is not None and not state.is_at_rest:
        yield Step(f"je-tools recover {word}", "shows what the engine does when it opens the log")


def _changes(home: Path, evidence: Evidence) -> Iterator[Step]:
    """Yield the commands that repair the log: a dry run, a repaired copy, then the log itself."""
    repair = evidence.repair
    if repair is None:
        return
    word = quoted(str(home))
    yield Step(f"je-tools recover {word}", "shows what would be cut off and written")
    copy = quoted(unused_beside(home, "recovered"))
    why = "writes a repaired copy, and leaves the log as it is"
    yield Step(f"je-tools recover {word} --apply --output {copy}", why)
    if repair.in_place:
        why = "repairs the log in place; `je-tools undo` reverts it"
        yield Step(f"je-tools recover {word} --apply", why, changes=True)
