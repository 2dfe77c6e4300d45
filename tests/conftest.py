"""Parametrize tests over environments, and check that no test changes its inputs."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from je_tools.commands.start import OBJECTS_PER_SEARCH
from tests.builders.forked import Forked, forking
from tests.corpus import (
    FIXTURES,
    environments,
    ignite_damages,
    ignite_nodes,
    legacy_files,
    one_of_each_kind,
)
from tests.engine.acceptance import Judge
from tests.engine.jars import JE_5, JE_18, engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import Engine, engine_class_path
from tests.engine.tools import Tools

pytest_plugins = ["tests.budget", "tests.shards"]

_OF_SESSION = re.compile(r"[\[-]spark[-\]]")

TESTS = Path(__file__).parent
READ_BY_THREADS = (TESTS / "damage", TESTS / "je_tools" / "btree" / "check")

TOGETHER = {
    "tests/commands/test_group.py::test_the_group_is_that_of_dbdumpgroup": "engine",
    "tests/commands/test_uri": "store",
    "tests/engine/": "engine",
    "tests/engine_truth/test_files.py": "engine",
    "tests/je_tools/checkpoint/test_newly_obsolete.py::test_about_what_the_engine_counts": "engine",
    "tests/je_tools/audit/test_browser.py": "browser",
    "tests/je_tools/doctor/test_page.py": "browser",
    "tests/test_imports.py": "imports",
    "tests/test_wheel.py": "wheel",
}
"""Groups of tests, by prefix of their names, that share something costly in one process."""

# A busy machine must not fail a test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", _PATIENT)
# A change must not fail for a case that existed before it; `make test-all` searches for new ones.
settings.register_profile("same", _PATIENT, derandomize=True)
settings.load_profile("same")

# Every process that a test starts would compile all modules anew, which is a third of its CPU time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts background processes with SIGINT ignored, and their children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--rewrite-golden`, which updates tests/golden/ instead of failing on differences."""
    text = "write what the commands print now into tests/golden/"
    parser.addoption("--rewrite-golden", action="store_true", help=text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of `environment`, `ignite_node`, `legacy_file` and the like for each of these.

    A test of `some_environment` takes long: `make test` runs it for one of each kind. Only a
    corpus has cases for `legacy_file`, `ignite_node` and `ignite_damage`: without one, tests of
    these are not collected.
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
    if "ignite_node" in wanted:
        nodes = ignite_nodes()
        metafunc.parametrize("ignite_node", nodes, ids=[f"{n.case}/{n.node}" for n in nodes])
    if "ignite_damage" in wanted:
        cases = ignite_damages()
        metafunc.parametrize("ignite_damage", cases, ids=[path.name for path in cases])
    if "legacy_file" in wanted:
        files = legacy_files()
        metafunc.parametrize("legacy_file", files, ids=[path.name for path in files])


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let one process of xdist collect at a time: the next ones read the byte code that it wrote.

    Compiling all tests takes 10 of the 14 CPU seconds of a collection.
    """
    if hasattr(session.config, "workerinput"):
        with Path(__file__).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return (yield)
    return (yield)


def pytest_collection_finish() -> None:
    """Leave what was collected out of searches for garbage, and search as seldom as commands do.

    The searches took 6 % of the CPU time of tests that read many rows.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_SEARCH)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop tests with an empty list of cases: pytest would report them as skipped."""
    items[:] = [item for item in items if not item.name.endswith("[NOTSET]")]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of the one Spark session in one process, likewise each group of TOGETHER.

    All others run on any free process. Names identify the tests: the scheduling process does not
    know marks.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if _OF_SESSION.search(nodeid):
                return "spark"
            shared = (name for begun, name in TOGETHER.items() if nodeid.startswith(begun))
            return next(shared, nodeid)

    return Scheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture(scope="module")
def _folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Make a folder for a module; it stays if a test has failed."""
    folder = tmp_path_factory.mktemp(request.path.stem)
    yield folder
    if not request.session.testsfailed:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, _folder: Path) -> Path:
    """Return a new folder of a test.

    The fixture of pytest lists the folders of all earlier tests to find a free number, which takes
    5 ms after 5,000 tests.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_folder))


@pytest.fixture(autouse=True)
def _threads_for_small_logs(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let threads read small logs in some folders of tests, as they read large ones."""
    if any(folder in request.path.parents for folder in READ_BY_THREADS):
        monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", -1)


@pytest.fixture(scope="session")
def java() -> Path:
    """Return the `java` launcher; without one, the test fails and says what to install."""
    return find_java()


@pytest.fixture(scope="session")
def je_jar() -> Path:
    """Return the jar of the engine that writes log version 17; its lack is no reason to skip."""
    return engine_jar(JE_18)


@pytest.fixture(scope="session")
def class_path(java: Path, je_jar: Path) -> str:
    """Return the class path of the engine and of the programs of tests/engine."""
    return engine_class_path(java, je_jar)


@pytest.fixture(scope="session")
def tools(java: Path, class_path: str) -> Iterator[Tools]:
    """Run the engine's command line tools."""
    with Tools(java, class_path) as running:
        yield running


@pytest.fixture(scope="session")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Judge]]:
    """Start the JVMs of the newest and the oldest engine that tests use, once for all modules."""
    folder = tmp_path_factory.mktemp("judge")
    with Judge.of(JE_18, folder / "new") as new, Judge.of(JE_5, folder / "old") as old:
        yield {JE_18: new, JE_5: old}


@pytest.fixture(scope="session")
def engines(judges: dict[str, Judge]) -> dict[str, Engine]:
    """Return the same engines, without their assertions."""
    return {name: judge.plain for name, judge in judges.items()}


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    """Run commands in processes that need not load them; see tests/builders/forked.py."""
    with forking() as made:
        yield made


@pytest.fixture(scope="session", params=[pytest.param("local[2,4]", id="spark")])
def audit_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Start the Spark of audits in this process, like that of a user's notebook.

    The parameter adds `spark` to the name of each of its tests.
    """
    from je_tools.audit.session import open_spark

    find_java()
    folder = tmp_path_factory.mktemp("session")
    with open_spark(folder, folder / "spark.log", request.param, {}) as spark:
        yield spark


@pytest.fixture(scope="session", autouse=True)
def _inputs_untouched() -> Iterator[None]:
    """Check that no test writes to fixtures/: every file there is the same before and after."""
    before = _digests()
    yield
    assert _digests() == before


def _digests() -> dict[str, str]:
    return {
        str(path.relative_to(FIXTURES)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in FIXTURES.rglob("*")
        if path.is_file() and "make" not in path.parts
    }
