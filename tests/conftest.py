"""Parametrizes tests over environments, and keeps every test from changing its inputs."""

from __future__ import annotations

import hashlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.corpus import (
    FIXTURES,
    environments,
    legacy_files,
    one_of_each_kind,
)
from tests.engine.jars import JE_5, JE_18, engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import PROGRAMS, RECORDS, Engine, compile_java
from tests.engine.tools import Tools

_OF_SESSION = re.compile(r"[\[-]spark[-\]]")

TOGETHER = {
    "tests/engine/": "engine",
    "tests/engine_truth/test_files.py": "engine",
    "tests/je_tools/audit/test_browser.py": "browser",
    "tests/test_wheel.py": "wheel",
}
"""Tests, by how their names begin, that share what is costly to have in each process."""

# The first call of a kernel compiles it, and a busy machine is no failure of ours.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", _PATIENT)
# Nobody's change is refused for a case that was there before; `make test-all` looks for new ones.
settings.register_profile("same", _PATIENT, derandomize=True)
settings.load_profile("same")

# A shell ignores it for what runs behind its prompt, and whatever that starts would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite-golden` renews tests/golden/ instead of failing where output differs."""
    text = "write what the commands print now into tests/golden/"
    parser.addoption("--rewrite-golden", action="store_true", help=text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `environment`, `environment_with_truth` or `legacy_file` gets each.

    One that asks for `some_environment` takes long: under `make test` it gets one of each kind.
    Without a corpus there are no legacy files, and such a test is not collected at all.
    """
    marks = metafunc.definition.iter_markers("parametrize")
    named = [mark.args[0] for mark in marks]
    lists = [names.split(",") if isinstance(names, str) else names for names in named]
    own = {name.strip() for names in lists for name in names}
    wanted = set(metafunc.fixturenames) - own
    if "environment" in wanted:
        every = environments()
        metafunc.parametrize("environment", every, ids=[each.name for each in every])
    if "some_environment" in wanted:
        metafunc.parametrize("some_environment", one_of_each_kind())
    if "environment_with_truth" in wanted:
        judged = [each for each in environments() if each.truth]
        ids = [each.name for each in judged]
        metafunc.parametrize("environment_with_truth", judged, ids=ids)
    if "legacy_file" in wanted:
        files = legacy_files()
        metafunc.parametrize("legacy_file", files, ids=[path.name for path in files])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop what an empty `legacy_file` left: pytest would report it as skipped."""
    items[:] = [item for item in items if not item.name.endswith("[NOTSET]")]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of the one Spark session run in one process, as do others of TOGETHER.

    All others run wherever there is room. Tests are told by their names: marks are not known to the
    process that hands them out.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if _OF_SESSION.search(nodeid):
                return "spark"
            shared = (name for begun, name in TOGETHER.items() if nodeid.startswith(begun))
            return next(shared, nodeid)

    return Scheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture(scope="session")
def java() -> Path:
    """The `java` launcher; the test fails, and says what to install, when there is none."""
    return find_java()


@pytest.fixture(scope="session")
def je_jar() -> Path:
    """The jar of the engine that writes log version 17; never a reason to skip."""
    return engine_jar(JE_18)


@pytest.fixture(scope="session")
def class_path(java: Path, je_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the engine, and of the programs of tests/engine."""
    return compile_java(java, je_jar, tmp_path_factory.mktemp("classes"), PROGRAMS)


@pytest.fixture(scope="session")
def tools(java: Path, class_path: str) -> Iterator[Tools]:
    """The engine's command line tools."""
    with Tools(java, class_path) as running:
        yield running


@pytest.fixture(scope="session")
def engines(
    java: Path, class_path: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Engine]]:
    """The newest engine that is asked, and the oldest."""
    folder = tmp_path_factory.mktemp("old")
    old_path = compile_java(java, engine_jar(JE_5), folder, [RECORDS])
    with Engine(java, class_path) as new, Engine(java, old_path) as old:
        yield {JE_18: new, JE_5: old}


@pytest.fixture(scope="session", params=[pytest.param("local[2,4]", id="spark")])
def audit_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The session in which audits of this process run, as a user's session of a notebook would be.

    By its parameter each of its tests has `spark` in its name.
    """
    from je_tools.audit.session import open_spark

    find_java()
    folder = tmp_path_factory.mktemp("session")
    with open_spark(folder, folder / "spark.log", request.param, {}) as spark:
        yield spark.session()


@pytest.fixture(scope="session", autouse=True)
def _inputs_untouched() -> Iterator[None]:
    """Nothing may write to fixtures/: every log there is the same before and after the tests."""
    before = _digests()
    yield
    assert _digests() == before


def _digests() -> dict[str, str]:
    return {
        str(path.relative_to(FIXTURES)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in FIXTURES.rglob("*")
        if path.is_file() and "make" not in path.parts
    }
