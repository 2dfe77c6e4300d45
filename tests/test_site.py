"""The site of the documentation: complete, searchable, and loading nothing from another host."""

from __future__ import annotations

import re
import runpy
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser
from tests.corpus import ROOT

HOOKS: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py"))
NARROW, WIDE = 380, 1280


def test_the_nav_has_every_page() -> None:
    """Read the lines instead of YAML, for which the tests would need MkDocs."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"^ *- (?:.*: )?(\S+\.md)$", nav, re.MULTILINE)
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")]
    assert sorted(named) == sorted(page.relative_to(ROOT).as_posix() for page in pages)


def test_what_github_reads_otherwise_is_changed() -> None:
    code = "\n    code\n\n```\n  <!-- kept -->\n  kept\n```\n"
    text = "- one\n  - two\n\n<!-- made: x -->\n| a `\\| <b>` |\n"
    changed = "- one\n    - two\n\n\n| a <code>&#124; &lt;b&gt;</code> |\n"
    assert HOOKS["on_page_markdown"](text + code, page=None) == changed + code


class Loaded(HTMLParser):
    """Addresses that a page loads, which links to other pages are not."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {"src", "srcset", "data", "poster", *(["href"] if tag == "link" else [])}
        self.found += [value for name, value in attrs if name in named and value]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, which fails at a link or an anchor that leads nowhere."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([ROOT / "scripts" / "site.sh", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.mark.exhaustive
def test_files_name_no_other_host(site: Path) -> None:
    elsewhere = re.compile(r"^(?:\w+:)?//")
    for page in site.rglob("*.html"):
        loaded = Loaded(page.read_text(encoding="utf-8")).found
        assert [address for address in loaded if elsewhere.match(address)] == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(?:\w+:)?//", style.read_text(encoding="utf-8"))


@pytest.mark.exhaustive
def test_pages_load_from_disk_alone_and_fit_the_window(site: Path, browser: Browser) -> None:
    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    assert len(pages) > 30
    for page in pages:
        for width in (NARROW, WIDE):
            browser.size(width, 1000)
            browser.open(page)
            assert browser.complaints == [], page
            assert {url.partition(":")[0] for url in browser.requests} <= {"file", "about", "data"}
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), page


@pytest.mark.exhaustive
def test_search_from_disk(site: Path, browser: Browser) -> None:
    browser.size(WIDE, 1000)
    browser.open(site / "index.html")
    browser.click(".md-search__input")
    browser.type("utilization tracker")
    found = browser.evaluate(
        "new Promise((resolve) => { const look = () => {"
        "const links = document.querySelectorAll('.md-search-result__link');"
        "if (links.length) resolve([...links].map((link) => link.href)); else setTimeout(look, 50);"
        "}; look(); })"
    )
    assert any("docs/glossary.html" in link for link in found)
    assert {url.partition(":")[0] for url in browser.requests} <= {"file", "about", "data"}
