"""Aspects of a node of a group and of a front end's journals, each with a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from je_tools.core.escaping import counted, printable
from je_tools.doctor.facts import Condition, State, worst_state
from je_tools.doctor.verdict import OF_FRONT_END, OF_GROUP, OF_INDEX, OF_JOURNALS
from je_tools.log.field_texts import time_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from je_tools.doctor.facts import Replication
    from je_tools.doctor.verdict import Evidence
    from je_tools.findings import Finding
    from je_tools.journal.front_end import FrontEnd
    from je_tools.journal.report import JournalReport
    from je_tools.vlsn.quick_check import QuickCheck

_NAMED = 5
"""Largest number of nodes that a text names."""


def replication_conditions(evidence: Evidence) -> Iterator[Condition]:
    """Yield the aspects of a node and of journals; nothing if a log has neither."""
    state = evidence.state
    found = state.replication if state is not None else None
    if found is None:
        return
    for problem in found.problems:
        yield Condition("replication", State.UNKNOWN, f"not examined: {problem}")
    if found.node is not None:
        yield _group(evidence, found.node)
        yield _stream(found.node)
        yield _index(evidence, found.node)
    if found.journals is not None:
        yield _front_end(evidence, found.journals)
        yield _journals(evidence, found, found.journals)


def _worst(evidence: Evidence, codes: Collection[str]) -> tuple[State, str] | None:
    """Return the worst state of the findings of some codes, and the codes; None without any."""
    found = [each for each in evidence.findings if each.code in codes]
    return (worst_state(found), _codes(found)) if found else None


def _codes(found: Sequence[Finding]) -> str:
    names = dict.fromkeys(each.code for each in found)
    return f"{', '.join(names)}; see below"


def _group(evidence: Evidence, node: QuickCheck) -> Condition:
    group = node.group
    worst = _worst(evidence, OF_GROUP)
    name = "of a group without a known name" if group.name is None else printable(group.name)
    names = [printable(each) for _, each in sorted(group.nodes.items())]
    more = f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    text = f"{name}, with {counted(len(names), 'node')}"
    text += f": {', '.join(names[:_NAMED])}{more}" if names else ""
    if worst is not None:
        return Condition("group", worst[0], f"{text}; {worst[1]}")
    return Condition("group", State.OK, text)


def _stream(node: QuickCheck) -> Condition:
    """Return the range of VLSNs, and how many follow the last end of a transaction."""
    tail, covered = node.tail, node.index.usable.range
    last = tail.last_vlsn
    if last is None:
        return Condition("VLSNs", State.NOTE, "the log has no entry of the replication stream")
    first = f"{covered.first} to " if covered.first > 0 else "up to "
    text = f"{first}{last}"
    end = node.last_end
    if end is None:
        where = "" if tail.is_whole else f" from VLSN {tail.first_vlsn} on"
        return Condition("VLSNs", State.NOTE, f"{text}; no transaction ends{where}")
    master = int(end.master_node_id[0])
    name = node.group.nodes.get(master)
    shown = f"node {master}" if name is None else printable(name)
    text += f"; the last transaction ended at VLSN {int(end.vlsn[0])}, "
    text += f"{time_text(int(end.time_ms[0]))}, master {shown}"
    if node.durable_vlsn is not None:
        text += f", which knew VLSN {node.durable_vlsn} to be durable"
    if node.open_count:
        text += f"; {counted(node.open_count, 'VLSN')} after that without an end of a transaction"
    return Condition("VLSNs", State.NOTE if node.open_count else State.OK, text)


def _index(evidence: Evidence, node: QuickCheck) -> Condition:
    covered = node.index.usable.range
    worst = _worst(evidence, OF_INDEX)
    if worst is not None:
        return Condition("VLSN index", *worst)
    text = f"fits the log: covers VLSN {covered.first} to {covered.last} after recovery, and "
    text += f"{counted(node.mapping_count, 'mapping')} lead to the entries of their VLSNs"
    return Condition("VLSN index", State.OK, text)


def _front_end(evidence: Evidence, journals: JournalReport) -> Condition:
    text = _front_end_text(journals.front_end, journals)
    worst = _worst(evidence, OF_FRONT_END)
    if worst is not None:
        return Condition("front end", worst[0], f"{text}; {worst[1]}")
    if journals.front_end.role is None:
        return Condition("front end", State.UNKNOWN, text)
    return Condition("front end", State.OK, text)


def _front_end_text(front_end: FrontEnd, journals: JournalReport) -> str:
    product = "" if journals.product is None else f"{journals.product.value}; "
    if front_end.role is None:
        return f"{product}no image/ROLE beside the environment to compare with the group"
    name = printable(front_end.node_name or "without a name")
    images = [
        f"newest image{f' of {printable(series)}' if series else ''} {number}"
        for series, number in front_end.image_ids.items()
    ]
    return "; ".join([f"{product}{printable(front_end.role)} {name}", *images])


def _journals(evidence: Evidence, found: Replication, journals: JournalReport) -> Condition:
    parts = []
    for series, members in groupby(
        journals.journals.journals, key=lambda each: each.journal.series
    ):
        chain = list(members)
        first = next((each.first_id for each in chain if each.first_id is not None), None)
        last = next((each.last_id for each in chain[::-1] if each.last_id is not None), None)
        ids = "no ids" if first is None else f"ids {first} to {last}"
        of = f" of series {printable(series)}" if series else ""
        parts.append(f"{ids}{of} in {counted(len(chain), 'journal')}")
    continuity = journals.continuity
    if continuity.hole_count:
        missing = counted(continuity.missing_count, "id")
        parts.append(f"{missing} missing, in {counted(continuity.hole_count, 'hole')}")
    else:
        parts.append("no holes")
    worst = _worst(evidence, OF_JOURNALS)
    if worst is not None:
        return Condition("journals", worst[0], "; ".join([*parts, worst[1]]))
    if not found.has_values:
        parts.append("values were not read, journal show does it")
    return Condition("journals", State.OK, "; ".join(parts))
