"""Findings of a front end's journals: holes, odd records, wrong order, mismatches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from je_tools.core.escaping import counted, printable
from je_tools.findings import CODES, Finding, Severity
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.journal.continuity import HolePlace

if TYPE_CHECKING:
    from je_tools.journal.reading import JournalSummary
    from je_tools.journal.report import HoleReport, JournalReport


def journal_findings(report: JournalReport, env: str) -> list[Finding]:
    """Return the findings of a report on journals; those of the snapshot are not among them.

    Args:
        report: the report.
        env: the environment as named in findings.
    """
    found = [*_of_holes(report, env), *_of_images(report, env)]
    for each in report.journals.journals:
        found += _of_records(each, env)
    for overlap in report.continuity.overlaps:
        found.append(
            _make(
                "journal-order",
                env,
                expected=f"no id from {overlap.following.journal.named_id} on in journal "
                f"{printable(overlap.journal.name)}, since the next journal begins there",
                found=f"ids up to {overlap.journal.last_id}",
            )
        )
    for difference in report.differences:
        severity = Severity.WARNING if difference.is_harmless else Severity.ERROR
        found.append(
            _make(
                "front-end-mismatch",
                env,
                severity=severity,
                expected=difference.expected,
                found=difference.found,
            )
        )
    return found


def _make(code: str, env: str, severity: Severity | None = None, **more: Any) -> Finding:
    known = CODES[code]
    return Finding(code, severity or known.severity, env, hint=known.hint, **more)


def _of_holes(report: JournalReport, env: str) -> Iterator[Finding]:
    for each in report.holes:
        hole = each.hole
        name = printable(hole.journal.name)
        where = f"in journal {name}"
        if hole.place is HolePlace.IMAGE:
            where = f"between the newest image and the first journal, {name}"
        image_id = report.front_end.image_ids.get(hole.journal.journal.series)
        is_replayed = image_id is None or hole.last_id > image_id
        if not is_replayed:
            where += f", which the newest image, {image_id}, already covers"
        yield _make(
            "journal-hole",
            env,
            severity=None if is_replayed else Severity.WARNING,
            expected=f"{_ids(hole.first_id, hole.last_id)} {where}",
            found=_logged(each),
        )
    rest = report.continuity.hole_count - len(report.holes)
    if rest > 0:
        found = f"{counted(rest, 'more hole')}; {report.continuity.missing_count:,} ids in all"
        yield _make("journal-hole", env, found=found)


def _of_images(report: JournalReport, env: str) -> Iterator[Finding]:
    """Yield a finding for each series of which the image has more than the journals."""
    ends: dict[str, int] = {}
    for each in report.journals.journals:
        series = each.journal.series
        ends[series] = max(ends.get(series, each.end_id), each.end_id)
    for series, end_id in ends.items():
        image_id = report.front_end.image_ids.get(series)
        if image_id is not None and image_id > end_id:
            of_series = f" of series {printable(series)}" if series else ""
            yield _make(
                "front-end-mismatch",
                env,
                severity=Severity.WARNING,
                expected=f"journals{of_series} up to id {image_id}, that of the newest image",
                found=f"ids up to {end_id}; a front end loads the image anyway",
            )


def _ids(first_id: int, last_id: int) -> str:
    return f"id {first_id}" if first_id == last_id else f"ids {first_id} to {last_id}"


def _logged(each: HoleReport) -> str:
    if not each.logged_count or each.record_lsn is None:
        return "nothing; no entry of the log wrote them to that database"
    count = counted(each.logged_count, "id")
    text = f"no record, but the log still has entries of {count}: {lsn_text(each.record_lsn)}"
    if each.deletion_lsn is not None:
        text += f", deleted at {lsn_text(each.deletion_lsn)}"
    return text


def _of_records(journal: JournalSummary, env: str) -> Iterator[Finding]:
    name = printable(journal.name)
    for each in journal.odd:
        known = "" if each.journal_id is None else f" with id {each.journal_id}"
        place: dict[str, Any] = {}
        if each.lsn != NULL_LSN:
            place = {"file_no": each.lsn >> 32, "offset": each.lsn & 0xFFFFFFFF}
        if each.is_disorder:
            expected = f"VLSNs that ascend with the ids of journal {name}"
            found = f"the record{known} with {each.what}"
            severity = Severity.WARNING
            yield _make(
                "journal-order", env, severity=severity, expected=expected, found=found, **place
            )
        else:
            expected = f"a journal record{known} in journal {name}"
            yield _make("journal-record", env, expected=expected, found=each.what, **place)
    rest = journal.undecodable_count - journal.odd_count(is_disorder=False)
    if rest > 0:
        yield _make("journal-record", env, found=f"{counted(rest, 'more record')} of {name}")
    rest = journal.disordered_count - journal.odd_count(is_disorder=True)
    if rest > 0:
        found = f"{counted(rest, 'more record')} of {name} with a lower VLSN than the one before"
        yield _make("journal-order", env, severity=Severity.WARNING, found=found)
    if journal.below_count:
        yield _make(
            "journal-order",
            env,
            expected=f"no id below {journal.journal.named_id} in journal {name}",
            found=f"{counted(journal.below_count, 'record')}, the first with id {journal.first_id}",
        )
