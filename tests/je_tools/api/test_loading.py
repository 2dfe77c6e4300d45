"""`import je_tools` loads nothing, commands do not load the API, and `python -m` works."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

import je_tools
from tests.corpus import ROOT
from tests.je_tools.api.reading import home_of

SHOWN = "print(); print(*set(sys.modules) - before)"
HEAVY = ("numpy", "pyarrow", "msgspec", "typing", "je_tools.api", "je_tools.findings")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


def loaded(code: str, names: tuple[str, ...]) -> list[str]:
    """Return those of some modules that code loads, besides those of Python's start."""
    done = run("-c", f"import sys\nbefore = set(sys.modules)\n{code}\n{SHOWN}")
    assert done.returncode == 0, done.stderr
    return [name for name in names if name in done.stdout.splitlines()[-1].split()]


def test_an_import_loads_nothing() -> None:
    assert loaded("import je_tools; je_tools.errors.InputError", HEAVY) == []


def test_opening_loads_no_arrow() -> None:
    home = str(home_of("v17-basic"))
    assert loaded(f"import je_tools; je_tools.open({home!r}).verify()", ("pyarrow",)) == []


def test_commands_do_not_load_the_api() -> None:
    home = str(home_of("v17-basic"))
    lines = [["--help"], *([verb, home] for verb in ("count", "verify", "dump"))]
    code = f"from je_tools.commands.main import group, run; [run(group, each) for each in {lines}]"
    assert loaded(code, ("je_tools.api", "je_tools.api.environment")) == []


def test_calls_change_no_settings_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """malloc is that of the caller's whole process; commands set it for themselves."""
    asked = []
    library = SimpleNamespace(malloc_trim=asked.append, mallopt=lambda *_: pytest.fail("mallopt"))
    monkeypatch.setattr("je_tools.core.memory._library", lambda: library)
    # Buffers of several threads are given back.
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", -1)
    opened = je_tools.open(home_of("v17-basic"), threads=2)
    assert opened.verify(tree=True).is_intact
    assert opened.count()
    assert opened.databases()
    assert sum(batch.num_rows for batch in opened.records("people"))
    assert asked


def test_public_names() -> None:
    for name in je_tools.__all__:
        assert getattr(je_tools, name) is not None
    assert set(je_tools.__all__) <= set(dir(je_tools))
    assert je_tools.Verification.__name__ == "Verification"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        je_tools.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_package_is_a_program() -> None:
    done = run("-m", "je_tools", "--version")
    assert (done.returncode, done.stdout) == (0, f"je-tools, version {je_tools.__version__}\n")
    done = run("-m", "je_tools", "verify", "fixtures/nothing")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("je-tools: fixtures/nothing")


def test_a_program_may_end_with_batches_that_are_still_read() -> None:
    home = str(home_of("v17-crash-txn"))
    code = (
        "import je_tools\n"
        "import je_tools.log.scan_options as scan_options\n"
        "scan_options.ONE_THREAD_MAX = -1\n"
        f"env = je_tools.open({home!r}, threads=2)\n"
        "kept = [env.entries(), env.records(), env.records(), env.entries(backward=True)]\n"
        "print(*(next(each).num_rows > 0 for each in kept[1:]))\n"
    )
    done = run("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True True\n", "")


def test_annotations_are_marked_as_usable() -> None:
    assert (ROOT / "je_tools" / "py.typed").is_file()
