"""The page of a diagnosis in a browser: it draws the log, and shows hostile texts as text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser import Browser
from tests.builders.ignite_pages import damage
from tests.builders.ignite_recovery import write_unfinished_store
from tests.corpus import FIXTURES
from tests.je_tools.audit.test_browser import CONTRASTS, assert_quiet
from tests.je_tools.dumped import je_tools

FILES = FIXTURES / "v17-erase-after" / "env"
NODE = FIXTURES / "v26-rep-committed" / "node1"
EVIL = "<img src=x onerror=alert(1)>&'\" \u202e" + os.fsdecode(b"\xff")

Made = Callable[..., Path]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    running = Browser(tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Return a builder of the page of an environment, with the files that it lacks."""

    def make(source: Path, *gone: str, name: str = "env", flipped: int | None = None) -> Path:
        home = shutil.copytree(source, tmp_path / name)
        for each in gone:
            (home / each).unlink()
        if flipped is not None:
            path = next(home.glob("*.jdb"))
            data = bytearray(path.read_bytes())
            data[flipped] ^= 1
            path.write_bytes(data)
        page = tmp_path / "page.html"
        je_tools("doctor", home, "--html", page)
        return page

    return make


def count_of(browser: Browser, selector: str) -> int:
    return int(browser.evaluate(f"document.querySelectorAll('{selector}').length"))


def text_of(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector('{selector}').textContent"))


def test_the_log_is_drawn_with_its_use_and_what_lacks(browser: Browser, made: Made) -> None:
    page = made(FILES, "00000001.jdb")
    browser.open(page)
    assert "would refuse to open it" in text_of(browser, "h1")
    assert count_of(browser, "svg.line rect.size") == 2
    assert count_of(browser, "svg.line rect.unused") == 2
    assert count_of(browser, "svg.line .lacking.error") > 0
    assert count_of(browser, "svg.line .hole") == 1
    assert count_of(browser, "#files tbody tr") == 2
    assert "live-entries" in text_of(browser, "#files tbody")
    assert "je-tools salvage" in text_of(browser, ".steps")
    assert text_of(browser, "#by-database ~ .bars li .label").startswith("primary")
    assert_quiet(browser, page)


def test_damage_and_vlsns_are_drawn(browser: Browser, made: Made) -> None:
    page = made(NODE, flipped=30_000)
    browser.open(page)
    assert "cuts off" in text_of(browser, "h1")
    assert count_of(browser, "svg.line .place.error") > 0
    assert count_of(browser, "svg.line .vlsn") == 1
    assert count_of(browser, "#findings .finding.error") > 0
    assert "newest Commit" in text_of(browser, "main")
    assert_quiet(browser, page)


def test_a_whole_log_has_no_findings(browser: Browser, made: Made) -> None:
    page = made(FILES)
    browser.open(page)
    assert "opens it" in text_of(browser, "h1.ok")
    assert text_of(browser, "#findings") == "None."
    assert_quiet(browser, page)


def test_a_directory_without_a_log_has_a_page_too(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    (tmp_path / "empty").mkdir()
    je_tools("doctor", tmp_path / "empty", "--html", page)
    browser.open(page)
    assert "There is no log here" in text_of(browser, "h1")
    assert count_of(browser, "#log") == 0
    assert_quiet(browser, page)


@pytest.mark.parametrize(("width", "media"), [(1280, "screen"), (375, "screen"), (718, "print")])
def test_hostile_names_are_text_at_every_width(
    width: int, media: str, browser: Browser, made: Made
) -> None:
    page = made(FILES, "00000001.jdb", name=EVIL.replace("/", ""))
    browser.size(width, 900)
    browser.prefer("light", media)
    browser.open(page)
    try:
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert count_of(browser, "main img, main script, [onerror]") == 0
        assert "<img src=x" in text_of(browser, ".run code")
        assert "\u202e" not in browser.evaluate("document.body.innerText")
        assert_quiet(browser, page)
    finally:
        browser.prefer("light")
        browser.size(1280, 1000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out(scheme: str, browser: Browser, made: Made) -> None:
    page = made(FILES, "00000001.jdb")
    browser.prefer(scheme)
    browser.open(page)
    try:
        assert browser.evaluate(CONTRASTS) == []
    finally:
        browser.prefer("light")


def test_the_theme_can_be_chosen(browser: Browser, made: Made) -> None:
    page = made(FILES)
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.open(page)
    seen = [browser.evaluate(ground)]
    for _ in range(2):
        browser.click("#theme")
        seen.append(browser.evaluate(ground))
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize(
    ("width", "media", "scheme"),
    [(1280, "screen", "light"), (375, "screen", "dark"), (718, "print", "light")],
)
def test_a_store_fits_at_every_width(
    width: int, media: str, scheme: str, browser: Browser, tmp_path: Path
) -> None:
    store = write_unfinished_store(tmp_path / EVIL.replace("/", ""))
    damage(store / "db" / "node1" / "cache-first" / "part-0.bin", 4)
    page = tmp_path / "page.html"
    je_tools("doctor", store, "--html", page)
    browser.size(width, 900)
    browser.prefer(scheme, media)
    browser.open(page)
    try:
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert count_of(browser, "main img, main script, [onerror]") == 0
        assert count_of(browser, "td .sign.error") >= 2
        display = "getComputedStyle(document.querySelector('.nodes tbody tr')).display"
        assert browser.evaluate(display) == ("grid" if width < 700 else "table-row")
        # Nothing of a cell is outside of its table, and no text of ours is cut.
        wide = "[...document.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth)"
        assert media == "print" or not browser.evaluate(wide)
        assert "it checks hashes and ids." in text_of(browser, "ul.plain")
        assert "je-tools ignite recover" in text_of(browser, ".steps .command code")
        if media == "screen":
            assert browser.evaluate(CONTRASTS) == []
        assert_quiet(browser, page)
    finally:
        browser.prefer("light")
        browser.size(1280, 1000)
