"""Man pages: one for each command, with all of its options, and without warnings of groff."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess

import click
import pytest

from je_tools.commands import audit, erase, ignite, ignite_pages, ignite_wal, journal, vlsn
from je_tools.commands import group as group_command
from je_tools.commands.main import COMMANDS, group
from tests.corpus import ROOT

PAGES: dict[str, str] = runpy.run_path(str(ROOT / "docs" / "man.py"))["pages"]()


def test_each_command_has_a_page() -> None:
    expected = {f"je-tools-{name}.1" for name in COMMANDS}
    expected |= {"je-tools.1", "db-dump.1", "db-recover.1"}
    expected |= {f"je-tools-audit-{verb}.1" for verb in audit.VERBS}
    expected |= {f"je-tools-vlsn-{verb}.1" for verb in vlsn.VERBS}
    expected |= {f"je-tools-group-{verb}.1" for verb in group_command.VERBS}
    expected |= {f"je-tools-erase-{verb}.1" for verb in erase.VERBS}
    expected |= {f"je-tools-journal-{verb}.1" for verb in journal.VERBS}
    expected |= {f"je-tools-erase-{verb}.1" for verb in erase.VERBS}
    expected |= {f"je-tools-ignite-{verb}.1" for verb in ignite.VERBS}
    expected |= {f"je-tools-ignite-pages-{verb}.1" for verb in ignite_pages.VERBS}
    expected |= {f"je-tools-ignite-wal-{verb}.1" for verb in ignite_wal.VERBS}
    assert PAGES.keys() == expected
    for name in COMMANDS:
        assert f"je\\-tools\\-{name}(1)" in PAGES["je-tools.1"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_the_help_of_its_command(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    page = plain(PAGES[f"je-tools-{name}.1"])
    assert COMMANDS[name].rstrip(".") in page
    for word in re.findall(r"[A-Za-z]{3,}", command.help or ""):
        assert word in page
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert all(option in page for option in parameter.opts)


@pytest.mark.parametrize("name", PAGES)
def test_the_help_option_is_that_of_the_command_line(name: str) -> None:
    assert ".B -h, --help\n" in plain(PAGES[name])


def plain(page: str) -> str:
    return page.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")


@pytest.mark.parametrize("name", PAGES)
def test_groff_has_no_warning(name: str) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-z"],
        input=PAGES[name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
