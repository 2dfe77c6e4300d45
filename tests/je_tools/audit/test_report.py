"""Outputs made from an audit's tables: totals, the JSON summary and the page's contents."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from je_tools.audit import details, page, table_reading
from je_tools.audit.fleet import read_summary
from je_tools.audit.output_folder import RunFolder
from je_tools.audit.tables import ENVIRONMENTS, FILES, FINDINGS, TABLES, TXNS
from tests.builders.fleets import ABOUT, HOSTILE, RUN, Fleet, report, write_fleet, write_tables
from tests.corpus import ROOT

RANKS = {"error": 0, "warning": 1, "note": 2, "ok": 3}


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def read_json(directory: Path) -> dict[str, Any]:
    """Read audit.json strictly: ASCII only, no NaN or Infinity, no key twice."""

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(given)) == len(given)
        return dict(given)

    text = (directory / "audit.json").read_bytes()
    assert text.isascii()
    read: dict[str, Any] = json.loads(text, parse_constant=refuse, object_pairs_hook=pairs)
    return read


class Page(HTMLParser):
    """Elements of a page, and the contents of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, str] = {}
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.contents[self._inside] = self.contents.get(self._inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = None

    @property
    def details(self) -> list[dict[str, Any]]:
        lines = self.contents["data-details"].strip().splitlines()
        return [json.loads(line) for line in lines]


def read_page(directory: Path) -> Page:
    return Page((directory / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("count", [3, 300])
def test_totals_are_those_of_the_rows(tmp_path: Path, count: int) -> None:
    fleet = write_fleet(tmp_path, count)
    summary = report(tmp_path)
    rows = fleet.environments
    assert summary.counts.severities == dict.fromkeys(RANKS, 0) | Counter(
        r["severity"] for r in rows
    )
    totals = summary.totals
    read = sum(row["source"] in ("read", "grown") for row in fleet.rows["files"])
    assert totals.pop("read_file_count") == read
    for column, total in totals.items():
        expected = count if column == "environment_count" else sum(row[column] for row in rows)
        assert total == expected, column
    findings = Counter((row["code"], row["severity"]) for row in fleet.rows["findings"])
    assert {(one.code, one.severity): one.count for one in summary.findings} == findings
    for one in summary.findings:
        holders = {row["env"] for row in fleet.rows["findings"] if row["code"] == one.code}
        assert one.env_count == len(holders)
    assert sum(one.file_count for one in summary.versions) == len(fleet.rows["files"])
    sizes: Counter[str] = Counter()
    for row in fleet.rows["entry_stats"]:
        sizes[row["type"]] += row["total_size"]
    assert {one.type: one.size for one in summary.types} == sizes
    outcomes = Counter(row["outcome"] for row in fleet.rows["txns"])
    assert {one.outcome: one.count for one in summary.outcomes} == outcomes
    assert summary.row_counts == {name: len(rows) for name, rows in fleet.rows.items()}
    assert [RANKS[row.severity] for row in summary.environments] == sorted(
        RANKS[row["severity"]] for row in rows
    )


def test_the_json_says_all_of_it(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, 30)
    summary = report(tmp_path)
    told = read_json(tmp_path)
    assert list(told) == [
        "format",
        "run",
        "severities",
        "totals",
        "findings",
        "versions",
        "entry_types",
        "txn_outcomes",
        "tables",
        "outcomes",
        "groups",
        "environments",
    ]
    assert told["run"]["roots"] == ["fleet/backups"]
    assert told["totals"] == summary.totals
    columns = {column.name for column in ENVIRONMENTS.columns}
    by_env = {row["env"]: row for row in fleet.environments}
    for row in told["environments"]:
        assert set(row) == columns | {"last_txn_ms", "findings", "node"}
        assert {name: row[name] for name in columns} == {
            name: by_env[row["env"]].get(name) for name in columns
        }
        codes = Counter(one["code"] for one in fleet.rows["findings"] if one["env"] == row["env"])
        assert row["findings"] == codes
        ends = [
            one["end_ms"]
            for one in fleet.rows["txns"]
            if one["env"] == row["env"] and one["outcome"] in ("committed", "aborted")
        ]
        assert row["last_txn_ms"] == max(ends, default=None)


def test_what_is_at_stake_comes_first(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.rows["environments"] = [
        {"env": "fine", "severity": "ok", "outcome": "opens"},
        {"env": "noted", "severity": "error", "error_count": 9, "outcome": "opens"},
        {"env": "keys", "severity": "error", "outcome": "fails", "missing_key_count": 7},
        {"env": "shut", "severity": "error", "outcome": "refuses"},
        {"env": "one", "severity": "error", "outcome": "loses", "lost_commit_count": 1},
        {"env": "two", "severity": "warning", "outcome": "loses", "lost_commit_count": 2},
        {"env": "unread", "severity": "error", "outcome": None},
        {"env": "loose files", "severity": "ok", "outcome": None},
        {"env": "store", "severity": "error", "outcome": "does not start", "error_count": 1},
        {
            "env": "losing store",
            "severity": "error",
            "outcome": "starts with losses",
            "error_count": 99,
            "lost_record_count": 556,
        },
        {"env": "open store", "severity": "error", "outcome": "unclear"},
    ]
    write_tables(fleet)
    summary = read_summary(fleet.run, ABOUT)
    names = [row.env for row in summary.environments]
    assert names == [
        *("keys", "store", "shut"),
        *("open store", "unread"),
        *("two", "one", "losing store"),
        *("noted", "fine", "loose files"),
    ]
    outcomes = summary.counts.outcomes
    assert [outcomes[each] for each in ("fails", "loses", "opens", "refuses")] == [1, 2, 2, 1]


def test_groups_and_nodes_are_in_the_json_and_on_the_page(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, 30, stakes=True)
    summary = report(tmp_path)
    told = read_json(tmp_path)
    assert sum(told["outcomes"].values()) == 30
    assert len(told["groups"]) == 10
    worst = [(row["rollback_commit_count"], row["group_lag_vlsn"]) for row in told["groups"]]
    assert worst == sorted(worst, reverse=True)
    assert told["tables"]["nodes"] == 30
    nodes = {row["env"]: row for row in fleet.rows["nodes"]}
    for row in told["environments"]:
        assert row["node"]["outcome"] == nodes[row["env"]]["outcome"]
        assert "env" not in row["node"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for group in summary.groups:
        assert f"<bdi>{group['group_name']}</bdi>" in page
    for env in nodes:
        assert f"<bdi>{env}</bdi>" in page


def test_tables_without_rows_or_files(tmp_path: Path) -> None:
    summary = report(tmp_path)
    assert list(summary.environments) == []
    assert read_json(tmp_path)["environments"] == []
    assert "No environment was found" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert read_page(tmp_path).details == []


def test_lists_as_spark_names_their_items(tmp_path: Path) -> None:
    folder = tmp_path / "environments" / f"run={RUN}"
    folder.mkdir(parents=True)
    items = pa.list_(pa.field("element", pa.int64(), nullable=False))
    columns = {"env": pa.array(["e"]), "severity": pa.array(["ok"])}
    columns["versions"] = pa.array([[14, 17]], items)
    pq.write_table(pa.table(columns), folder / "part-0.parquet")
    assert read_summary(RunFolder(tmp_path, RUN), ABOUT).environments[0].versions == [14, 17]


def test_older_outputs_are_replaced_whole_and_nothing_is_left_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fleet(tmp_path, 3)
    names = ("audit.json", "metrics.prom", "report.html")
    for name in names:
        (tmp_path / name).write_text("old", encoding="utf-8")
    before = set(tmp_path.iterdir())

    def broken(*_: object) -> None:
        raise OSError("a table has gone")

    with monkeypatch.context() as patched:
        patched.setattr(page, "environment_details", broken)
        with pytest.raises(OSError, match="a table has gone"):
            report(tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "old"
    assert set(tmp_path.iterdir()) == before
    report(tmp_path)
    assert set(tmp_path.iterdir()) == before
    assert all((tmp_path / name).stat().st_size > 1_000 for name in names)


def test_the_same_tables_give_the_same_bytes(tmp_path: Path) -> None:
    write_fleet(tmp_path, 40)
    seen = []
    for _ in range(2):
        report(tmp_path)
        names = ("audit.json", "metrics.prom", "report.html")
        seen.append([(tmp_path / name).read_bytes() for name in names])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("hostile", [False, True])
def test_the_page_loads_nothing_and_runs_only_its_own_script(
    tmp_path: Path, *, hostile: bool
) -> None:
    write_fleet(tmp_path, 63, hostile=hostile)
    report(tmp_path)
    made = read_page(tmp_path)
    tags = Counter(tag for tag, _ in made.elements)
    assert not tags.keys() & {"link", "img", "iframe", "object", "embed", "base", "image", "video"}
    assert (tags["script"], tags["style"], tags["form"]) == (3, 1, 1)
    for tag, attributes in made.elements:
        assert not {name for name in attributes if name.startswith("on")}
        assert not attributes.keys() & {"src", "srcset", "style", "action", "formaction"}
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#"), tag
    policy = next(
        given["content"] or ""
        for tag, given in made.elements
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(made.contents[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg\")", made.contents["script"])
    assert "url(" not in made.contents["style"].replace("url(#hatch)", "")
    for name in ("data-environments", "data-details"):
        assert not re.search("[<>&]", made.contents[name])


def test_no_text_leaves_its_place(tmp_path: Path) -> None:
    """A page of hostile texts has the same elements and attributes as one of harmless texts."""
    shapes = []
    for name, texts in (("harm", HOSTILE), ("none", ("harmless",) * len(HOSTILE))):
        fleet = Fleet(tmp_path / name)
        for number, text in enumerate(texts):
            env = f"{number:02}{text}"
            fleet.rows["environments"].append({"env": env, "severity": "error", "error_count": 1})
            found = {"env": env, "code": text, "severity": "error", "expected": text, "hint": text}
            fleet.rows["findings"].append(found)
            stats = {
                "env": env,
                "type": f"{number:02}{text}",
                "count": 1,
                "total_size": 100 - number,
            }
            fleet.rows["entry_stats"].append(stats)
            fleet.rows["txn_stats"].append({"env": env, "outcome": text, "count": 1})
        if name == "none":
            # Match the number of distinct codes and outcomes of the hostile fleet.
            for number, found in enumerate(fleet.rows["findings"]):
                found["code"] = f"code {number}"
            for number, txn in enumerate(fleet.rows["txn_stats"]):
                txn["outcome"] = f"outcome {number}"
        write_tables(fleet)
        report(fleet.directory)
        made = read_page(fleet.directory)
        shapes.append([(tag, sorted(given)) for tag, given in made.elements])
        text = (fleet.directory / "report.html").read_text(encoding="utf-8")
        assert {each for each in text if not each.isprintable()} == {"\n"}
        assert len(made.details) == len(HOSTILE)
    assert shapes[0] == shapes[1]


def test_names_are_in_the_order_of_the_numbers_in_them(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    numbers = ["0", "02", "2", "10", "9" * 5_000, "1" + "0" * 5_000]
    names = [f"node{number}/env" for number in numbers]
    for name in reversed(names):
        fleet.rows["environments"].append({"env": name, "severity": "ok"})
        fleet.rows["groups"].append({"group_name": name, "group_id": "uuid"})
    write_tables(fleet)
    summary = report(tmp_path)
    assert [row.env for row in summary.environments] == names
    assert [group["group_name"] for group in summary.groups] == names


def test_only_stores_of_ignite_are_marked(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    for kind in (None, "je", "ignite"):
        row = {"env": f"env-{kind}", "severity": "error", "error_count": 1, "kind": kind}
        fleet.rows["environments"].append(row)
        found = {"env": row["env"], "code": "page-checksum", "severity": "error", "page": 4}
        if kind == "ignite":
            found |= {"node": "node1", "file": "db/node1/a/part-0.bin", "offset": 20_480}
        fleet.rows["findings"].append(found)
    write_tables(fleet)
    report(tmp_path)
    made = read_page(tmp_path)
    envs = json.loads(made.contents["data-environments"])
    assert {env[0]: env[-1] for env in envs} == {
        "env-None": "je",
        "env-je": "je",
        "env-ignite": "ignite",
    }
    found = {env[0]: each["findings"][0] for env, each in zip(envs, made.details, strict=True)}
    assert found["env-je"][-2:] == ["je-tools verify env-je", None]
    assert found["env-ignite"][-2:] == [
        "je-tools ignite pages verify env-ignite",
        "db/node1/a/part-0.bin, page 4, offset 20,480",
    ]


def test_numbers_that_a_script_would_round_are_texts(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    largest = 2**63 - 1
    row = {"env": "e", "severity": "ok", "last_vlsn": largest, "last_checkpoint_ms": largest}
    fleet.rows["environments"] = [row]
    write_tables(fleet)
    report(tmp_path)
    (shown,) = json.loads(read_page(tmp_path).contents["data-environments"])
    assert shown.count(str(largest)) == 2
    assert read_json(tmp_path)["environments"][0]["last_vlsn"] == largest


def test_the_worst_findings_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    for number in range(30):
        severity, count = ("error", 900) if number == 7 else ("warning", 150)
        env = f"e{number:02}"
        row = {"env": env, "severity": severity, f"{severity}_count": count}
        fleet.rows["environments"].append(row)
        for at in range(count):
            found = {"env": env, "code": "vlsn-gap", "severity": severity}
            # The reverse of the wanted order.
            fleet.rows["findings"].append(found | {"file_no": 0, "offset": 10_000 - at})
    write_tables(fleet)
    summary = report(tmp_path)
    made = read_page(tmp_path)
    assert summary.environments[0].env == "e07"
    worst, *others = made.details
    assert len(worst["findings"]) == details.FINDINGS_MAX_EACH
    assert [found[3] for found in worst["findings"]] == list(range(9_101, 9_301))
    shown = [len(each["findings"]) for each in others]
    assert sum(shown) == details.FINDINGS_MAX - details.FINDINGS_MAX_EACH
    assert max(shown) - min(shown) <= 1
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "This page shows 3,000 of 5,250 findings, the worst first; 2,250 are omitted." in text


def test_files_of_a_long_log_share_bars_and_nothing_is_lost(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, 2, files=lambda _: 1_700)
    report(tmp_path)
    made = read_page(tmp_path)
    envs = json.loads(made.contents["data-environments"])
    for env, each in zip(envs, made.details, strict=True):
        rows = [row for row in fleet.rows["files"] if row["env"] == env[0]]
        assert len(each["bars"]) <= details.BARS_MAX_EACH
        for column, name in ((2, None), (3, "size"), (4, "entry_count"), (5, "damage_count")):
            total = sum(bar[column] for bar in each["bars"])
            assert total == (sum(row[name] for row in rows) if name else len(rows))
        assert [each["bars"][0][0], each["bars"][-1][1]] == [
            rows[0]["file_no"],
            rows[-1]["file_no"],
        ]


def test_environments_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fleet(tmp_path, 40)
    report(tmp_path)
    whole = (tmp_path / "report.html").read_bytes()
    monkeypatch.setattr(details, "FILES_AT_ONCE", 30)
    report(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == whole


@pytest.mark.parametrize(
    ("counts", "total", "most", "dealt"),
    [
        ([], 10, 5, []),
        ([3, 1], 10, 5, [3, 1]),
        ([9, 1], 10, 5, [5, 1]),
        ([9, 9, 1], 10, 9, [5, 4, 1]),
        ([1, 1, 1], 2, 9, [1, 1, 0]),
        ([7, 7], 0, 9, [0, 0]),
    ],
)
def test_shares(counts: list[int], total: int, most: int, dealt: list[int]) -> None:
    assert details.shares(counts, total, most) == dealt


def test_a_page_of_many_environments_keeps_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = write_fleet(tmp_path, 120)
    for name, rows in (("FINDINGS_MAX", "findings"), ("BARS_MAX", "files")):
        monkeypatch.setattr(details, name, len(fleet.rows[rows]) // 4)
    monkeypatch.setattr(page, "PLAIN_MAX", 30)
    report(tmp_path)
    made = read_page(tmp_path)
    assert sum(len(each["findings"]) for each in made.details) == details.FINDINGS_MAX
    bars = sum(len(each["bars"]) for each in made.details)
    assert details.BARS_MAX // 2 < bars <= details.BARS_MAX
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the page lists the worst 30 of 120 environments" in text


@pytest.mark.exhaustive
def test_a_fleet_of_5000_makes_a_page_that_a_browser_takes(tmp_path: Path) -> None:
    write_fleet(tmp_path, 5_000)
    report(tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 16 << 20


def test_memory_does_not_grow_with_transactions_and_findings(tmp_path: Path) -> None:
    """Each measurement runs in its own process, since a process's peak never falls."""
    peaks = []
    for count in (20_000, 2_000_000):
        directory = tmp_path / str(count)
        write_fleet(directory, 5, files=lambda _: 3)
        env = pq.read_table(directory / "environments", partitioning=None)["env"][0].as_py()
        for table in (TXNS, FINDINGS):
            values = {
                "env": env,
                "outcome": "committed",
                "code": "vlsn-gap",
                "severity": "warning",
                "found": "x" * 40,
            }
            names = [column.name for column in table.columns]
            some = [
                pa.array([values.get(name)] * 20_000, table.schema.field(name).type)
                for name in names
            ]
            folder = directory / table.name / f"run={RUN}"
            with pq.ParquetWriter(folder / "more.parquet", table.schema) as out:
                for _ in range(count // 20_000):
                    out.write_table(pa.table(some, table.schema))
        peaks.append(_peak_of(directory))
    # Holding all rows takes 460 MB.
    assert peaks[1] < peaks[0] + (150 << 20), [peak >> 20 for peak in peaks]


@pytest.mark.parametrize("sums_min", [0, 7, 1 << 16])
def test_sums_of_parts_are_those_of_all_rows(
    sums_min: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_reading, "_SUMS_MIN", sums_min)
    chance = random.Random(1)
    envs, sizes = [None, "a", "b", *"cdefghij"], [None, -5, 0, 7, 2**40]
    rows = [(chance.choice(envs), chance.choice(sizes)) for _ in range(1_000)]
    expected: dict[str | None, list[int]] = {}
    for env, size in rows:
        if size is not None:
            expected.setdefault(env, []).append(size)
    columns = {"env": [env for env, _ in rows], "size": [size for _, size in rows]}
    folder = tmp_path / "files" / f"run={RUN}"
    folder.mkdir(parents=True)
    for number in range(3):
        part = pa.table(columns, pa.schema([("env", pa.string()), ("size", pa.int64())]))
        path = folder / f"{number}.parquet"
        pq.write_table(part.slice(number * 400, 400), path, row_group_size=30)
    size = pc.field("size")
    sums = {"n": (table_reading.ONE, "sum"), "all": (size, "sum"), "least": (size, "min")}
    found = table_reading.summed(
        table_reading.open_table(RunFolder(tmp_path, RUN), FILES),
        {"env": pc.field("env")},
        sums | {"most": (size, "max")},
        size.is_valid(),
    )
    assert found.num_rows == len(expected)
    assert {row["env"]: list(row.values())[1:] for row in found.to_pylist()} == {
        env: [len(each), sum(each), min(each), max(each)] for env, each in expected.items()
    }


# The peak is VmHWM, since getrusage starts with the peak of the parent process. One core, because
# readers get furthest ahead of slower consumers there.
PEAK = """
import os, re, sys
from pathlib import Path
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from tests.builders.fleets import report
report(Path(sys.argv[1]))
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def _peak_of(directory: Path) -> int:
    """Return the peak memory of writing the reports, in bytes."""
    command = [sys.executable, "-c", PEAK, str(directory)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT)
    return int(done.stdout) * 1024


def test_a_file_of_unknown_number_is_shown(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.rows["environments"] = [{"env": "e", "severity": "ok", "file_count": 1}]
    fleet.rows["files"] = [{"env": "e", "name": "strange.jdb", "size": 5}]
    write_tables(fleet)
    report(tmp_path)
    (bar,) = read_page(tmp_path).details[0]["bars"]
    assert (bar[0], bar[3], bar[-1]) == (None, 5, "strange.jdb")


def test_every_table_that_is_read_is_declared() -> None:
    assert {"environments", "files", "findings"} <= {table.name for table in TABLES}
    assert set(details._FILE_COLUMNS) <= {column.name for column in FILES.columns}


def test_every_key_metric_and_view_is_documented(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "audit-outputs.md").read_text(encoding="utf-8")
    write_fleet(tmp_path, 40, stakes=True)
    report(tmp_path)
    told = read_json(tmp_path)
    keys = {*told, *told["run"], *told["totals"], *told["severities"], *told["tables"]}
    for name in ("findings", "versions", "entry_types", "txn_outcomes"):
        keys |= told[name][0].keys()
    keys |= told["environments"][0].keys() - {column.name for column in ENVIRONMENTS.columns}
    assert {key for key in keys if f"`{key}`" not in text and f"`{key}/`" not in text} == set()
    metrics = (tmp_path / "metrics.prom").read_text(encoding="utf-8")
    names = set(re.findall(r"^# TYPE (\S+)", metrics, re.MULTILINE))
    assert names == set(re.findall(r"^\| `(je_tools_audit_\w+)`", text, re.MULTILINE))
    script = read_page(tmp_path).contents["script"]
    views = set(re.findall(r'given\.get(?:All)?\("(\w+)"\)', script))
    views |= set(re.findall(r'\{ id: "(\w+)"', script))
    assert {view for view in views if f"`{view}`" not in text} == set()
    assert f"holds {details.FINDINGS_MAX:,} findings" in text
    assert f"{details.FINDINGS_MAX_EACH} errors" in text
    assert f"more than {details.BARS_MAX_EACH} files" in " ".join(text.split())
