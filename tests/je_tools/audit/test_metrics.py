"""The metrics follow Prometheus' text format, checked with a strict parser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from je_tools.audit.fleet import RunInfo
from je_tools.audit.metrics import WORST_MAX
from tests.builders.fleets import ABOUT, Fleet, report, write_fleet, write_tables

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|\})')
VALUE = re.compile(r"-?\d+(\.\d+)?")
UNESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Series:
    """Return all series; assert that each metric has HELP, TYPE and samples, together and once."""
    assert text.endswith("\n")
    series: Series = {}
    seen: set[str] = set()
    lines = text.removesuffix("\n").split("\n")
    at = 0
    while at < len(lines):
        name = lines[at].split(" ")[2]
        assert NAME.fullmatch(name)
        assert re.fullmatch(rf"# HELP {name} \S.*", lines[at])
        assert lines[at + 1] == f"# TYPE {name} gauge"
        assert name not in seen
        seen.add(name)
        at += 2
        first = at
        while at < len(lines) and not lines[at].startswith("#"):
            key, value = parse_sample(lines[at], name)
            assert key not in series, key
            series[key] = value
            at += 1
        assert at > first, f"{name} has no sample"
    return series


def parse_sample(line: str, name: str) -> tuple[tuple[str, frozenset[tuple[str, str]]], float]:
    assert line.startswith(name)
    assert line.isprintable()
    rest, labels = line.removeprefix(name), []
    if rest.startswith("{"):
        rest, end = rest[1:], ","
        while end == ",":
            found = LABEL.match(rest)
            assert found, rest
            text = re.sub(r"\\.", lambda escape: UNESCAPED[escape[0]], found[2])
            labels.append((found[1], text))
            end, rest = found[3], rest[found.end() :]
    assert len(dict(labels)) == len(labels)
    assert VALUE.fullmatch(rest.removeprefix(" ")), rest
    assert rest.startswith(" ")
    return (name, frozenset(labels)), float(rest)


def metrics_of(directory: Path, about: RunInfo = ABOUT) -> Series:
    report(directory, about)
    text = (directory / "metrics.prom").read_bytes().decode("utf-8")
    told = parse(text)
    assert all(name.startswith("je_tools_audit_") for name, _ in told)
    return told


def of(series: Series, name: str) -> dict[frozenset[tuple[str, str]], float]:
    return {labels: value for (key, labels), value in series.items() if key == name}


def test_every_row_is_a_series(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, 40)
    series = metrics_of(tmp_path)
    gauges = {
        "environment_bytes": ("size", 1),
        "environment_files": ("file_count", 1),
        "environment_entries": ("entry_count", 1),
        "environment_damaged_bytes": ("damaged_size", 1),
        "environment_unfinished_transactions": ("unfinished_count", 1),
        "environment_last_vlsn": ("last_vlsn", 1),
        "environment_last_checkpoint_timestamp_seconds": ("last_checkpoint_ms", 1000),
    }
    for name, (column, unit) in gauges.items():
        expected = {
            frozenset({("env", row["env"])}): row[column] / unit
            for row in fleet.environments
            if row[column] is not None
        }
        assert of(series, f"je_tools_audit_{name}") == expected
    for severity in ("error", "warning", "note", "ok"):
        count = sum(row["severity"] == severity for row in fleet.environments)
        labels = frozenset({("severity", severity)})
        assert series["je_tools_audit_environments", labels] == count
    findings = of(series, "je_tools_audit_findings")
    assert sum(findings.values()) == len(fleet.rows["findings"])
    for labels, value in findings.items():
        wanted = dict(labels)
        rows = [
            row for row in fleet.rows["findings"] if all(row[k] == v for k, v in wanted.items())
        ]
        assert len(rows) == value
    none: frozenset[tuple[str, str]] = frozenset()
    assert series["je_tools_audit_run_duration_seconds", none] == 61.25
    assert series["je_tools_audit_run_timestamp_seconds", none] == 1_790_000_061.25


def test_names_that_mean_harm_stay_labels_and_different(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    names = ['a"} 1\nje_x{b="', "back\\slash", "a\nb", "a\\nb", "\x1b[31m", "\u202ex", "\udcff"]
    fleet.rows["environments"] = [{"env": name, "severity": "ok"} for name in names]
    write_tables(fleet)
    told = of(metrics_of(tmp_path), "je_tools_audit_environment_severity")
    labels = {dict(each)["env"] for each in told}
    assert labels == {
        'a"} 1\\nje_x{b="',
        "back\\slash",
        "a\\nb",
        "a\\nb~2",
        "\\x1b[31m",
        "\\u202ex",
        "\\xff",
    }


@pytest.mark.parametrize("count", [3, 300])
def test_hostile_fleets(tmp_path: Path, count: int) -> None:
    write_fleet(tmp_path, count, hostile=True)
    series = metrics_of(tmp_path)
    assert len(of(series, "je_tools_audit_environment_bytes")) == min(count, WORST_MAX)


def test_a_large_fleet_has_few_series(tmp_path: Path) -> None:
    """Sums over all environments, and the worst environments and groups only."""
    fleet = write_fleet(tmp_path, 3_000, files=lambda _: 1, stakes=True)
    series = metrics_of(tmp_path)
    assert len(series) < 3_000
    none: frozenset[tuple[str, str]] = frozenset()
    assert series["je_tools_audit_groups", none] == 1_000
    lost = sum(row["lost_commit_count"] for row in fleet.environments)
    assert series["je_tools_audit_lost_commits", none] == lost
    outcomes = of(series, "je_tools_audit_environments_by_outcome")
    assert sum(outcomes.values()) == 3_000
    counted = of(series, "je_tools_audit_all_findings")
    assert sum(counted.values()) == len(fleet.rows["findings"])
    lags = of(series, "je_tools_audit_group_lag_vlsn")
    assert len(lags) == WORST_MAX
    lag = max(row["group_lag_vlsn"] for row in fleet.rows["groups"])
    assert max(lags.values()) == lag
    # The worst environments are those that their engine does not open.
    listed = {dict(each)["env"] for each in of(series, "je_tools_audit_environment_bytes")}
    outcome = {row["env"]: row["outcome"] for row in fleet.environments}
    assert {outcome[env] for env in listed} <= {"refuses", "fails"}


def test_without_environments_the_run_is_told(tmp_path: Path) -> None:
    write_tables(Fleet(tmp_path))
    series = metrics_of(tmp_path)
    names = {name.removeprefix("je_tools_audit_") for name, _ in series}
    assert names == {"info", "run_timestamp_seconds", "run_duration_seconds", "environments"}


def test_times_before_1970_keep_their_sign(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    row = {"env": "e", "severity": "ok", "last_checkpoint_ms": -1_500}
    fleet.rows["environments"] = [row]
    write_tables(fleet)
    told = of(metrics_of(tmp_path), "je_tools_audit_environment_last_checkpoint_timestamp_seconds")
    assert list(told.values()) == [-1.5]


@pytest.mark.parametrize(
    "broken",
    [
        "# HELP a x\n# TYPE a gauge\na 1",
        "# HELP a x\n# TYPE a gauge\n",
        '# HELP a x\n# TYPE a gauge\na{b="c"d"} 1\n',
        "# HELP a x\n# TYPE a gauge\na 1\na 1\n",
        '# HELP a x\n# TYPE a gauge\na{b="\\x"} 1\n',
        "# HELP a x\n# TYPE a gauge\na one\n",
    ],
)
def test_the_parser_is_strict(broken: str) -> None:
    with pytest.raises((AssertionError, IndexError)):
        parse(broken)
