"""fixtures/ agrees with MANIFEST.json, is small, and equals the corpus that it came from."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.corpus import FIXTURES, VECTORS, corpus, environments_in

LIMIT = 16_000_000


def _manifest() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FIXTURES / "MANIFEST.json").read_text(encoding="utf-8"))
    return content


def _files() -> dict[str, dict[str, Any]]:
    content = _manifest()
    found = dict(content["vectors"]["files"])
    for told in (*content["environments"].values(), *content["stores"].values()):
        found |= told["files"]
    return found


def test_every_file_is_as_the_manifest_says() -> None:
    for name, told in _files().items():
        content = (FIXTURES / name).read_bytes()
        assert len(content) == told["size"], name
        assert hashlib.sha256(content).hexdigest() == told["sha256"], name


def test_every_data_file_is_in_the_manifest() -> None:
    here = {
        path.relative_to(FIXTURES).as_posix()
        for path in FIXTURES.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    described = set(_files()) | {"MANIFEST.json"}
    assert {name for name in here - described if not name.startswith("make/")} == set()


def test_fixtures_are_small() -> None:
    total = sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file())
    assert total <= LIMIT


def test_every_environment_has_a_log_and_truth() -> None:
    found = environments_in(FIXTURES)
    assert {each.name.split("/")[0] for each in found} == set(_manifest()["environments"])
    for each in found:
        assert list(each.home.glob("*.jdb")), each.name
        assert each.truth is not None, each.name
        assert (each.truth / "summary.txt").is_file(), each.name


def test_no_path_of_a_machine_is_in_a_log() -> None:
    place = re.compile(rb"/(?:home|root|Users|work|tmp)/")
    for name in _files():
        content = (FIXTURES / name).read_bytes()
        if name.endswith(".gz"):
            content = gzip.decompress(content)
        assert place.search(content) is None, name


def test_the_engines_own_test_data_is_not_passed_on() -> None:
    lines = VECTORS.read_text(encoding="utf-8").splitlines()
    assert lines
    assert not [line for line in lines if "regression data" in json.loads(line)["origin"]]


def test_fixtures_equal_the_corpus_they_came_from() -> None:
    whole = corpus()
    if whole is None:
        # Without the corpus, the manifest has its digests.
        test_every_file_is_as_the_manifest_says()
        return
    for name in _files():
        origin = whole / name
        if origin.is_file():
            assert origin.read_bytes() == (FIXTURES / name).read_bytes(), name


def test_the_manifest_can_be_made_again(tmp_path: Path) -> None:
    maker = FIXTURES / "make" / "manifest.py"
    program = (
        "import json, runpy, sys; "
        "module = runpy.run_path(sys.argv[1]); "
        "print(json.dumps(module['manifest']()))"
    )
    made = subprocess.run(
        [sys.executable, "-c", program, maker],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert json.loads(made.stdout) == _manifest()
