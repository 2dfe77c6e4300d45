"""Environments for tests: fixtures/, and the corpus if it is available."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "fixtures"
VECTORS = FIXTURES / "vectors" / "je-entries.jsonl"


class Environment(NamedTuple):
    """One directory of .jdb files, and the output of the engine's tools on it.

    `name` is the environment's, followed by the node's for a replication group:
    `v17-basic`, `v17-rep/node1`.
    """

    name: str
    home: Path
    truth: Path | None


def corpus() -> Path | None:
    """Return the folder named by JE_TOOLS_CORPUS; None if it is not set."""
    chosen = os.environ.get("JE_TOOLS_CORPUS")
    if not chosen:
        return None
    folder = Path(chosen)
    if not folder.is_dir():
        raise FileNotFoundError(f"JE_TOOLS_CORPUS is not a directory: {chosen}")
    return folder


def environments() -> list[Environment]:
    """Return every environment of fixtures/ and of the corpus, by name.

    One that is in both is taken from the corpus, which has all of its truth;
    tests/test_fixtures.py checks that their logs are equal.
    """
    found = {each.name: each for each in environments_in(FIXTURES)}
    whole = corpus()
    if whole:
        found |= {each.name: each for each in environments_in(whole)}
    return [found[name] for name in sorted(found)]


def environments_in(folder: Path) -> list[Environment]:
    """Return the environments below `folder`, laid out as NAME/env|node1… and NAME/truth."""
    found = []
    for top in sorted(p for p in folder.iterdir() if p.is_dir()):
        if top.name.startswith("ignite-"):
            continue
        truth = top / "truth"
        if (top / "env").is_dir():
            found.append(Environment(top.name, top / "env", truth if truth.is_dir() else None))
        for node in sorted(top.glob("node*")):
            said = truth / node.name
            said_or_none = said if said.is_dir() else None
            found.append(Environment(f"{top.name}/{node.name}", node, said_or_none))
    return found


def recorded_environments() -> list[tuple[Environment, Path]]:
    """Return the environments whose records were written down, with the paths of the records."""
    found = [(each, each.home.parent / "records.tsv.gz") for each in environments()]
    return [(each, path) for each, path in found if path.is_file() and not _overruled(each)]


def one_of_each_kind() -> list[Any]:
    """Return every environment as a case of a slow test; see `marked_if_another`."""
    return [
        pytest.param(each, id=each.name, marks=marked_if_another(each)) for each in environments()
    ]


def marked_if_another(environment: Environment) -> list[Any]:
    """Return the marks of a slow case: exhaustive if other cases have its kind.

    `make test` runs those of fixtures/ except `_LIKE_OTHERS` and third nodes of groups, and one of
    each kind that is missing there (`deep`, `large`, …).
    """
    return [] if environment.name in _of_each_kind() else [pytest.mark.exhaustive]


_LIKE_OTHERS = {
    "starrocks-rep-uncommitted/node2",
    "v15-rep-uncommitted/node2",
    "v26-rep-committed/node2",
    "v26-basic",
    "v8-basic",
}
"""Fixtures with nothing that others lack: replicas, except for that of the
`v17-rep-uncommitted-before` group, and plain logs: others of their versions have more types of
entries."""


@functools.cache
def _of_each_kind() -> frozenset[str]:
    every = environments()
    chosen = {_kind(each): each.name for each in every}
    # The third node of a group is a replica like the second.
    fixtures = {
        each.name: _kind(each)
        for each in every
        if _is_fixture(each) and not each.name.endswith("/node3") and each.name not in _LIKE_OTHERS
    }
    return frozenset(fixtures).union(
        name for kind, name in chosen.items() if kind not in fixtures.values()
    )


def _is_fixture(environment: Environment) -> bool:
    return (FIXTURES / environment.name.partition("/")[0]).is_dir()


def _kind(environment: Environment) -> str:
    """Return the workload: the name without the log version and the node."""
    return environment.name.partition("/")[0].partition("-")[2]


def marked_beyond_fixtures(environment: Environment) -> list[Any]:
    """Return the marks of a slow case: exhaustive if it is not in fixtures/."""
    return [] if _is_fixture(environment) else [pytest.mark.exhaustive]


def _overruled(environment: Environment) -> bool:
    """Return whether a node has Commits of its own that its recorded group later rolled back."""
    lone = environment.home.parent / "lone-master"
    if not lone.is_file() or "-rep-committed-before/" not in environment.name:
        return False
    return lone.read_text().strip() == environment.home.name


def environment(name: str) -> Environment:
    """Return the environment of this name; KeyError if there is none."""
    return {each.name: each for each in environments()}[name]


def log_files(home: Path) -> list[Path]:
    """Return the .jdb files of an environment, in the order of their numbers."""
    return sorted(home.glob("*.jdb"))


def legacy_files() -> list[Path]:
    """Return single files of old releases, which only the corpus has."""
    whole = corpus()
    return sorted((whole / "legacy").glob("*.jdb")) if whole else []


def vector_files() -> list[Path]:
    """Return the file of single entries: the complete one beside the corpus, or fixtures/'s."""
    whole = corpus()
    complete = whole.parent / "vectors" / "je-entries.jsonl" if whole else None
    return [complete] if complete and complete.is_file() else [VECTORS]


class IgniteNode(NamedTuple):
    """One node of an Ignite store of the corpus: its work directory, and the engine's output."""

    case: str
    node: str
    store: Path
    truth: Path


def ignite_nodes() -> list[IgniteNode]:
    """Return the nodes of the undamaged Ignite stores of the corpus; none without it."""
    whole = corpus()
    found = []
    for store in sorted(whole.glob("ignite-*/store")) if whole else []:
        for folder in sorted((store / "db").glob("node*")):
            truth = store.parent / "truth"
            own = truth / folder.name
            case = store.parent.name
            found.append(IgniteNode(case, folder.name, store, own if own.is_dir() else truth))
    return found


def ignite_damages() -> list[Path]:
    """Return the folders of the damaged Ignite stores: each has `damage.txt` and `overlay`."""
    whole = corpus()
    return sorted(path.parent for path in whole.glob("ignite-*/damage.txt")) if whole else []


def damaged_store(case: Path, into: Path) -> Path:
    """Copy the base of a damaged store, put its files over it, and return the copy."""
    store = into / "store"
    shutil.copytree(undamaged_store(case), store)
    if (case / "overlay").is_dir():
        shutil.copytree(case / "overlay", store, dirs_exist_ok=True)
    first = (case / "damage.txt").read_text().splitlines()[0]
    if ", then remove: " in first:
        (store / first.partition(", then remove: ")[2]).unlink()
    return store


def undamaged_store(case: Path) -> Path:
    """Return the store that a damaged one was made of."""
    first = (case / "damage.txt").read_text().splitlines()[0]
    return case.parent / first.removeprefix("base: ").partition(";")[0]
