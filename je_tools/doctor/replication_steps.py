"""Commands to run next for a node of a group, and for the journals of a front end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from je_tools.core.escaping import quoted
from je_tools.doctor.facts import Step
from je_tools.doctor.verdict import OF_INDEX
from je_tools.findings import Severity

if TYPE_CHECKING:
    from je_tools.doctor.facts import Replication
    from je_tools.doctor.verdict import Evidence

_OTHER = "/copy/of/another/node"
_NOT_REBUILT = frozenset({"vlsn-backward", "vlsn-duplicate", "vlsn-rollback", "vlsn-unmarked"})
"""Codes of a stream that no index repairs."""


def replication_of(evidence: Evidence) -> Replication | None:
    """Return the facts about a node and its journals; None without any."""
    return evidence.state.replication if evidence.state is not None else None


def index_repair_steps(word: str, evidence: Evidence) -> Iterator[Step]:
    """Yield the dry run that repairs a VLSN index, if that is what is wrong.

    Args:
        word: the environment, quoted for a shell.
        evidence: the facts.
    """
    errors = {each.code for each in evidence.findings if each.severity is Severity.ERROR}
    if errors & OF_INDEX and not errors & _NOT_REBUILT:
        why = "shows a VLSN index made from the log, and what the engine does with the present one"
        yield Step(f"je-tools vlsn rebuild {word}", why)


def comparing_steps(word: str, evidence: Evidence) -> Iterator[Step]:
    """Yield the comparison with other nodes, and what reads more of the node and its journals."""
    found = replication_of(evidence)
    if found is None:
        return
    node, journals = found.node, found.journals
    if found.problems:
        yield Step(f"je-tools vlsn check {word}", "compares the VLSN index with the whole log")
    if journals is not None and not found.has_values:
        yield Step(f"je-tools journal {word}", "shows the journals, and also reads their values")
    if node is not None and len(node.group.nodes) > 1:
        why = (
            "compares it with the other nodes, or with their reports from `vlsn show --format "
            "json`: which one leads, and what the others would roll back"
        )
        yield Step(f"je-tools vlsn compare {word} {_OTHER}", why)


def resetting_steps(word: str, evidence: Evidence) -> Iterator[Step]:
    """Yield the dry run that makes a node a group of its own, for a node that is whole."""
    found = replication_of(evidence)
    node = found.node if found is not None else None
    if found is None or node is None or len(node.group.nodes) < 2:
        return
    known = found.journals.front_end.node_name if found.journals is not None else None
    if known is not None:
        why = (
            "only if most nodes of the group are lost for good: shows the change that lets this "
            "node start without them"
        )
        yield Step(f"je-tools group reset {word} --node-name {quoted(known)}", why)
        return
    why = (
        "shows the members; only if most of them are lost for good, `group reset` with the name of "
        "this node lets it start without them"
    )
    yield Step(f"je-tools group show {word}", why)
