"""Diagnosis of an environment, and the state of a node of a replication group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.api.arguments import named_arguments
from je_tools.api.calls import Call, RecordRequest, check_home, recovered
from je_tools.doctor.examination import diagnosed
from je_tools.doctor.recovered import DiagnosisOptions
from je_tools.log.scan import Scanner
from je_tools.recovery.choices import chosen_now

if TYPE_CHECKING:
    from je_tools.doctor.facts import Diagnosis
    from je_tools.doctor.recovered import Examiners
    from je_tools.group.members import GroupRecords
    from je_tools.journal.report import JournalReport
    from je_tools.vlsn.node_state import NodeState


def diagnose(call: Call, examiners: Examiners, *, tree: bool, now: str | None) -> Diagnosis:
    """Return the diagnosis of an environment, whose findings are reported.

    Args:
        call: the log.
        examiners: functions that the examination calls.
        tree: also check the trees.
        now: time at which records expire, as text; None for the current time.

    Raises:
        UsageError: single files, or `now` is no time.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    check_home(call)
    with named_arguments():
        now_ms = chosen_now(now)
    scanner = Scanner(threads=call.threads, wide=True)
    options = DiagnosisOptions(now_ms, tree, call.masking)
    home = Path(call.environment.name)
    with diagnosed(home, call.environment, scanner, options, examiners) as (diagnosis, _):
        pass
    call.report_all(diagnosis.findings)
    return diagnosis


def read_node_state(call: Call, request: RecordRequest, sync_count: int) -> NodeState:
    """Return the state of a node, as `vlsn show` does; findings are reported.

    Raises:
        UsageError: single files, or there is no such end.
        InputError: the log is not that of a replicated node.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    from je_tools.vlsn.node_state import read_node

    with recovered(call, request) as snapshot:
        state, _ = read_node(snapshot, sync_count)
    call.report_all(state.findings)
    return state


def read_group_records(call: Call, request: RecordRequest) -> GroupRecords:
    """Return the group and its nodes, as `group show` does; findings are reported.

    Raises:
        UsageError: single files, or there is no such end.
        InputError: the environment is not a node of a group.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    from je_tools.group.members import group_findings, read_group

    with recovered(call, request) as snapshot:
        records = read_group(snapshot)
        found = group_findings(snapshot, records)
    call.report_all(found)
    return records


def read_journal_report(call: Call, request: RecordRequest) -> JournalReport:
    """Return the journals of a front end, as `journal show` does; findings are reported.

    Raises:
        UsageError: single files, or there is no such end or time.
        InputError: the environment is not that of a front end.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    from je_tools.journal.front_end import find_front_end
    from je_tools.journal.journal_findings import journal_findings
    from je_tools.journal.report import report_journals
    from je_tools.recovery.findings import missing_findings

    with recovered(call, request) as snapshot:
        name = snapshot.environment.name
        report = report_journals(snapshot, find_front_end(Path(name)))
        found = [*missing_findings(snapshot), *journal_findings(report, name)]
    call.report_all(found)
    return report
