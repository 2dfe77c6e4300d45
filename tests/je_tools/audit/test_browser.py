"""The report page in a browser: filters, sorting, details, themes and hostile texts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from je_tools.audit import page as page_module
from je_tools.audit.fleet import FleetSummary
from je_tools.audit.page import GROUPS_MAX
from tests.browser import Browser
from tests.builders.fleets import HOSTILE, Fleet, report, write_fleet, write_tables

NAMES = "[...document.querySelectorAll('#table tr[data-env]')].map(row => row.dataset.env)"
STATUS = "document.querySelector('#status').textContent"
HASH = "decodeURIComponent(location.hash)"

Made = tuple[Path, FleetSummary]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    running = Browser(tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def fleet_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """Return a builder of pages of `count` environments, each with the summary it must show."""
    made: dict[tuple[int, bool, bool], Made] = {}

    def make(count: int, *, hostile: bool = False, stakes: bool = False) -> Made:
        kind = count, hostile, stakes
        if kind not in made:
            directory = tmp_path_factory.mktemp("fleet")
            write_fleet(directory, count, seed=7, hostile=hostile, stakes=stakes)
            summary = report(directory)
            made[kind] = directory / "report.html", summary
        return made[kind]

    return make


def assert_quiet(browser: Browser, page: Path) -> None:
    assert browser.complaints == []
    assert {url.partition("#")[0] for url in browser.requests} <= {page.as_uri(), "about:blank"}


@pytest.mark.parametrize("count", [3, 150, pytest.param(5_000, marks=pytest.mark.exhaustive)])
def test_the_worst_come_first_and_every_page_of_rows_is_reached(
    browser: Browser, fleet_of: Callable[..., Made], count: int
) -> None:
    page, summary = fleet_of(count)
    browser.open(page)
    expected = [row.env for row in summary.environments]
    assert browser.evaluate(NAMES) == expected[:50]
    assert browser.evaluate(STATUS).startswith(f"{count:,} of {count:,} environments")
    browser.open(page, f"page={-(-count // 50)}")
    assert browser.evaluate(NAMES) == expected[(count - 1) // 50 * 50 :]
    if count > 50:
        browser.click("#pages button:first-child")
        assert browser.evaluate(NAMES) == expected[-100:][: len(expected[-100:]) - 50]
    assert_quiet(browser, page)


@pytest.mark.parametrize("count", [3, 150])
def test_a_link_to_a_view_filters_and_sorts(
    browser: Browser, fleet_of: Callable[..., Made], count: int
) -> None:
    page, summary = fleet_of(count)
    rows = summary.environments
    for severity in ("error", "warning", "note", "ok"):
        browser.open(page, f"severity={severity}&sort=size")
        kept = [row for row in rows if row.severity == severity]
        assert browser.evaluate(STATUS).startswith(f"{len(kept)} of {count} ")
        by_size = sorted(kept, key=lambda row: -row.number("size"))
        assert browser.evaluate(NAMES) == [row.env for row in by_size][:50]
    browser.open(page, "q=NODE1/+env&sort=name&dir=desc")
    named = sorted((row.env for row in rows if "node1/" in row.env), reverse=True)
    assert browser.evaluate(NAMES) == named
    browser.open(page, "sort=vlsn&dir=asc")
    with_vlsn = sorted(row.values["last_vlsn"] for row in rows if row.values["last_vlsn"])
    told = browser.evaluate(
        "[...document.querySelectorAll('[data-label=\"last VLSN\"]')].map(cell => cell.textContent)"
    )
    texts = [f"{vlsn:,}" for vlsn in with_vlsn] + ["–"] * (len(rows) - len(with_vlsn))
    assert told == texts[:50]
    browser.open(page, "q=no+such+environment")
    assert browser.evaluate(STATUS) == f"0 of {count} environments"
    assert_quiet(browser, page)


@pytest.mark.parametrize("count", [3, 150])
def test_people_filter_by_typing_and_sort_by_click_and_key(
    browser: Browser, fleet_of: Callable[..., Made], count: int
) -> None:
    page, summary = fleet_of(count)
    rows = summary.environments
    browser.open(page)
    browser.click("#q")
    browser.type("node2")
    kept = [row for row in rows if "node2" in row.env]
    assert browser.evaluate(STATUS).startswith(f"{len(kept)} of {count} ")
    browser.click("[data-sort=files]")
    counts = "[...document.querySelectorAll('[data-label=files]')].map(cell => +cell.textContent)"
    expected = sorted((row.number("file_count") for row in kept), reverse=True)
    assert browser.evaluate(counts) == expected[:50]
    # The button keeps the focus, so the same key reverses the order.
    browser.press("Enter", 13, "\r")
    assert browser.evaluate(counts) == expected[::-1][:50]
    assert browser.evaluate("document.querySelector('[aria-sort]').ariaSort") == "ascending"
    assert browser.evaluate(HASH) == "#q=node2&sort=files&dir=asc"
    browser.click("#clear")
    assert browser.evaluate(STATUS).startswith(f"{count} of {count} ")
    browser.click("#severities label:last-child")
    ok = sum(row.severity == "ok" for row in rows)
    assert browser.evaluate(STATUS).startswith(f"{ok} of {count} ")
    assert_quiet(browser, page)


def test_a_chart_leads_to_the_environments_of_a_finding(
    browser: Browser, fleet_of: Callable[..., Made]
) -> None:
    page, summary = fleet_of(150)
    browser.open(page)
    code = summary.findings[0]
    browser.click("#by-code ~ .bars a")
    browser.evaluate("new Promise(done => setTimeout(done, 100))")
    told = browser.evaluate(STATUS)
    assert told.startswith(f"{code.env_count} of 150 environments with {code.code}")


def test_details_are_built_when_they_are_opened(
    browser: Browser, fleet_of: Callable[..., Made]
) -> None:
    page, summary = fleet_of(150)
    row = summary.environments[0]
    browser.open(page)
    assert browser.evaluate("document.querySelectorAll('.timeline, .finding').length") == 0
    browser.click("button.open")
    assert browser.evaluate("document.querySelectorAll('svg.line').length") == 1
    total = sum(found.count for found in row.findings)
    assert browser.evaluate("document.querySelectorAll('.finding').length") == total
    files = "document.querySelectorAll('.scroll tbody tr').length"
    assert browser.evaluate(files) == row.number("file_count")
    bars = "document.querySelectorAll('svg.line rect').length"
    assert browser.evaluate(bars) == row.number("file_count")
    commands = browser.evaluate(
        "[...document.querySelectorAll('.command code')].map(code => code.textContent)"
    )
    assert len(commands) == total
    known = re.compile(
        r"je-tools (explain 0x|verify |files |summary |missing |vlsn check |journal |group show )"
    )
    assert all(known.match(one) for one in commands)
    assert all(row.env in command for command in commands)
    assert row.env in browser.evaluate(HASH)
    browser.press("Enter", 13, "\r")
    assert browser.evaluate("document.querySelectorAll('tr.details').length") == 0
    assert_quiet(browser, page)


def test_every_environment_opens_whatever_its_names_and_texts_are(
    browser: Browser, fleet_of: Callable[..., Made]
) -> None:
    page, summary = fleet_of(24, hostile=True)
    browser.open(page)
    names = browser.evaluate(NAMES)
    assert len(set(names)) == len(summary.environments) > len(HOSTILE)
    browser.open(page, "&".join(f"open={quote(name)}" for name in names))
    assert browser.evaluate("document.title").startswith("je-tools audit: 24 environments")
    opened = browser.evaluate("document.querySelectorAll('tr.details').length")
    assert opened == len(names)
    harmful = "document.querySelectorAll('#table script, #table img, #table [onfocus]').length"
    assert browser.evaluate(harmful) == 0
    for width, media in ((1280, "screen"), (900, "screen"), (375, "screen"), (718, "print")):
        browser.size(width, 900)
        browser.prefer("light", media)
        wide = browser.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, media
    browser.prefer("light")
    browser.size(1280, 1000)
    assert_quiet(browser, page)
    text = browser.evaluate("document.body.innerText")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\ufeff\x00\x1b]", text)


def test_further_pages_of_rows_open_whatever_their_names_are(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With five rows a page."""
    templates = shutil.copytree(page_module._TEMPLATES, tmp_path / "templates")
    script = (templates / "report.js").read_text()
    assert "const PAGE_ROWS = 50;" in script
    (templates / "report.js").write_text(script.replace("PAGE_ROWS = 50;", "PAGE_ROWS = 5;"))
    monkeypatch.setattr(page_module, "_TEMPLATES", templates)
    write_fleet(tmp_path / "fleet", 24, seed=7, hostile=True)
    summary = report(tmp_path / "fleet")
    page = tmp_path / "fleet" / "report.html"
    browser.open(page)
    seen = browser.evaluate(NAMES)
    for number in range(2, 6):
        browser.open(page, f"page={number}")
        names = browser.evaluate(NAMES)
        assert 0 < len(names) <= 5
        seen += names
        browser.evaluate("document.querySelectorAll('button.open').forEach(one => one.click())")
        assert browser.evaluate("document.querySelectorAll('tr.details').length") == len(names)
        harmful = "document.querySelectorAll('#table script, #table img, #table [onfocus]').length"
        assert browser.evaluate(harmful) == 0
    assert len(set(seen)) == len(seen) == len(summary.environments)
    assert browser.evaluate("document.title").startswith("je-tools audit: 24 environments")
    assert_quiet(browser, page)


def test_light_dark_and_print(browser: Browser, fleet_of: Callable[..., Made]) -> None:
    page, _ = fleet_of(3)
    ground = "getComputedStyle(document.body).backgroundColor"
    seen = {}
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(page)
        seen[scheme] = browser.evaluate(ground)
    assert seen["light"] != seen["dark"]
    browser.click("#theme")
    assert browser.evaluate(ground) == seen["light"]
    browser.click("#theme")
    assert browser.evaluate(ground) == seen["dark"]
    browser.prefer("dark", "print")
    assert browser.evaluate(ground) == "rgb(255, 255, 255)"
    # A head that is repeated on each page is painted without its buttons.
    head = "getComputedStyle(document.querySelector('#table th button')).display"
    assert browser.evaluate(head) == "contents"
    browser.prefer("light")


def test_a_store_of_ignite_is_told_from_logs(browser: Browser, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet")
    for number, kind in enumerate(("je", "ignite")):
        row = {"env": f"e{number}", "severity": "ok", "kind": kind, "outcome": "starts"}
        fleet.rows["environments"].append(row)
    write_tables(fleet)
    report(tmp_path / "fleet")
    browser.open(tmp_path / "fleet" / "report.html", "q=ignite&open=e1")
    assert browser.evaluate(NAMES) == ["e1"]
    marks = "[...document.querySelectorAll('.kind')].map(mark => mark.textContent)"
    assert browser.evaluate(marks) == ["Ignite"]
    assert browser.evaluate("document.querySelectorAll('.timeline, .scroll').length") == 0
    assert "store of Apache Ignite" in browser.evaluate("document.body.innerText")
    browser.open(tmp_path / "fleet" / "report.html")
    opens = "[...document.querySelectorAll('[data-label=opens]')].map(cell => cell.textContent)"
    assert browser.evaluate(opens) == ["yes", "yes"]
    assert_quiet(browser, tmp_path / "fleet" / "report.html")


CONTRASTS = """
(() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((c) => (c /= 255) <= 0.03928 ? c / 12.92
    : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const rgb = parts(getComputedStyle(one).backgroundColor);
      if (rgb.length < 4 || rgb[3] === 1) return rgb;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const one of document.querySelectorAll("body *:not(svg, svg *, script, option)")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !one.checkVisibility() || one.disabled) continue;
    const [a, b] = [light(parts(getComputedStyle(one).color)), light(ground(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${one.tagName}.${one.className} ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_and_all_controls_have_names(
    browser: Browser, fleet_of: Callable[..., Made], scheme: str
) -> None:
    page, summary = fleet_of(150)
    opened = quote(summary.environments[0].env)
    browser.open(page, f"theme={scheme}&severity=error&open={opened}")
    assert browser.evaluate(CONTRASTS) == []
    nameless = (
        "[...document.querySelectorAll('button, a, input')].filter(one => !(one.textContent.trim()"
        " || one.labels?.[0]?.textContent.trim())).map(one => one.outerHTML)"
    )
    assert browser.evaluate(nameless) == []
    assert json.loads(browser.evaluate("JSON.stringify(document.documentElement.lang)")) == "en"


LABELLED = "[...document.querySelectorAll('[data-label=\"{}\"]')].map(cell => cell.textContent)"


@pytest.mark.parametrize("count", [3, 620])
def test_what_is_at_stake_is_in_the_list_and_in_the_details(
    browser: Browser, fleet_of: Callable[..., Made], count: int
) -> None:
    page, summary = fleet_of(count, stakes=True)
    rows = summary.environments
    browser.open(page)
    assert browser.evaluate(NAMES) == [row.env for row in rows][:50]
    fills = [f"{row.values['used_percent']} %" for row in rows]
    assert browser.evaluate(LABELLED.format("in use")) == fills[:50]
    opens = [{"opens": "yes"}.get(str(row.outcome), row.outcome) for row in rows]
    assert browser.evaluate(LABELLED.format("opens")) == opens[:50]
    browser.open(page, "sort=lost")
    losing = sorted((row.number("lost_commit_count") for row in rows), reverse=True)
    told = browser.evaluate(LABELLED.format("lost"))
    assert [int(text.split()[0].replace(",", "")) for text in told] == losing[:50]
    browser.open(page, "sort=age&dir=asc")
    by_age = sorted(row.values["last_commit_ms"] for row in rows)
    known = {row.env: row.values["last_commit_ms"] for row in rows}
    assert [known[env] for env in browser.evaluate(NAMES)] == by_age[:50]
    browser.click("button.open")
    texts = browser.evaluate("[...document.querySelectorAll('.stake')].map(p => p.textContent)")
    assert texts[0].startswith("The engine")
    assert texts[1].startswith("fe")
    assert_quiet(browser, page)


@pytest.mark.parametrize("count", [3, 620])
def test_groups_are_shown_with_their_nodes_side_by_side(
    browser: Browser, fleet_of: Callable[..., Made], count: int
) -> None:
    page, summary = fleet_of(count, stakes=True)
    browser.open(page)
    shown = "[...document.querySelectorAll('details.group')].map(group => {})"
    names = browser.evaluate(shown.format("group.querySelector('summary bdi').textContent"))
    assert names == [group["group_name"] for group in summary.groups][:GROUPS_MAX]
    nodes = browser.evaluate(
        shown.format("[...group.querySelectorAll('tbody bdi')].map(bdi => bdi.textContent)")
    )
    members: dict[str, set[str]] = {}
    for row in summary.environments:
        members.setdefault(row.values["group_name"], set()).add(row.env)
    for name, texts in zip(names, nodes, strict=True):
        assert set(texts[::2]) == members[name]
    browser.click("details.group a")
    browser.evaluate("new Promise(done => setTimeout(done, 100))")
    assert browser.evaluate(f"{NAMES}.length") >= 1
    assert_quiet(browser, page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_groups_fit_and_stand_out_whatever_their_names_are(
    browser: Browser, fleet_of: Callable[..., Made], scheme: str
) -> None:
    page, summary = fleet_of(24, hostile=True, stakes=True)
    browser.open(page, f"theme={scheme}")
    cells = "[...document.querySelectorAll('details.group tbody td:first-child')]"
    names = browser.evaluate(f"{cells}.map(cell => cell.textContent)")
    # No two nodes look alike.
    assert len(set(names)) == len(names) == len(summary.environments)
    browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.evaluate(CONTRASTS) == []
    for width, media in ((1280, "screen"), (900, "screen"), (375, "screen"), (718, "print")):
        browser.size(width, 900)
        browser.prefer(scheme, media)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, media
    browser.prefer("light")
    browser.size(1280, 1000)
    assert_quiet(browser, page)
