"""Summaries of fleets, made of nothing but environments and findings."""

from __future__ import annotations

from collections.abc import Mapping

from je_tools.audit.environment_list import CodeCount, EnvironmentRow
from je_tools.audit.fleet import FleetSummary, RunInfo
from je_tools.findings import CODES

RUN = RunInfo("20261123T220120Z", ("/fleet",), 0, 1500, "1.0", "local", None, None, "out")


def summary_of(environments: Mapping[str, Mapping[str, int]]) -> FleetSummary:
    """Return a summary of environments, each with its findings by code."""
    rows = []
    for env, codes in environments.items():
        findings = [CodeCount(code, CODES[code].severity.value, n) for code, n in codes.items()]
        severity = findings[0].severity if findings else "ok"
        rows.append(EnvironmentRow({"env": env, "severity": severity}, tuple(findings)))
    return FleetSummary(RUN, tuple(rows))
