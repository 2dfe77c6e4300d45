"""Check that tests notice broken code: break one place after the other, and run its test.

    python -m tests.mutations [NAME...]

mutations.toml lists the places. Each has the `old` text of a file, which occurs in it once, the
`new` text that breaks it, and the `test` that fails then: that of a file of Rust is one of the core
crate. The files are changed in place and restored; a file with changes that are not committed is
refused. The exit code is 1 if a test did not notice, or if an `old` text is no longer there.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.corpus import ROOT

PLACES = ROOT / "tests" / "mutations.toml"


class Mutation(NamedTuple):
    """A place that is broken, and the test that must fail."""

    name: str
    file: str
    old: str
    new: str
    test: str


def read_mutations() -> list[Mutation]:
    found = tomllib.loads(PLACES.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**each) for each in found]


@contextmanager
def broken(mutation: Mutation) -> Iterator[None]:
    """Break a place for the time of the context.

    Raises:
        ValueError: the file has changes that are not committed, or not one such text.
    """
    path = ROOT / mutation.file
    text = path.read_text(encoding="utf-8")
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", path], cwd=ROOT).returncode:
        raise ValueError(f"{mutation.file}: has changes that are not committed")
    if text.count(mutation.old) != 1:
        raise ValueError(f"{mutation.file}: has {text.count(mutation.old)} times {mutation.old!r}")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def is_noticed(mutation: Mutation) -> bool:
    """Return True if the test of a place fails while it is broken."""
    is_rust = mutation.file.endswith(".rs")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutation.test]
    if is_rust:
        command = ["scripts/rust-test.sh", mutation.test]
    with broken(mutation):
        done = subprocess.run(command, cwd=ROOT, capture_output=True)
    # cargo has the same exit code if the broken code does not compile.
    return b"test result: FAILED" in done.stdout if is_rust else done.returncode == 1


def main(names: list[str]) -> int:
    failed = 0
    for mutation in read_mutations():
        if names and not any(name in mutation.name for name in names):
            continue
        try:
            result = "noticed" if is_noticed(mutation) else "NOT NOTICED"
        except ValueError as error:
            result = f"STALE: {error}"
        failed += result != "noticed"
        print(f"{result:12} {mutation.name}: {mutation.test}", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
