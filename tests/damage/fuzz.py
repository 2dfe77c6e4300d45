"""`make fuzz`: read mutated logs by the hundred thousand (`python -m tests.damage.fuzz --help`).

A seed and a number determine each input, and `judge` checks it. The Makefile builds the extension
with overflow checks and debug assertions for this. The parent process detects a child that
dies or hangs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.damage import ignite
from tests.damage.ignite import judge_store
from tests.damage.judge import judge
from tests.damage.mutate import Input, make_input

INPUTS = 100_000
WARM_UP = 150
"""Number of inputs read before memory and time are judged."""

SLOW = 2.0
"""Seconds of CPU that an input may take; a slower one is read again to be sure."""

HUNG = 60.0
"""Seconds after which a process is killed."""

MEMORY = 512 << 20
"""Bytes of address space that an input may take beyond those of a warm process."""

GROWTH = 96 << 20
"""Bytes of anonymous memory that a warm process may gain over all its inputs."""

PAGE = resource.getpagesize()


@dataclass(frozen=True)
class Plan:
    """A share of a run: numbers `first`, `first + step`, … below `inputs`, until `deadline`.

    If `is_ignite_only`, those of stores of Ignite among them.
    """

    seed: int
    inputs: int
    first: int = 0
    step: int = 1
    deadline: float = float("inf")
    is_ignite_only: bool = False

    def numbers(self) -> Iterator[int]:
        for number in range(self.first, self.inputs, self.step):
            if time.monotonic() > self.deadline:
                return
            if not self.is_ignite_only or is_ignite(engine_choice(self.seed, number)):
                yield number


@dataclass(frozen=True)
class Failure:
    """An input that showed a bug."""

    number: int
    text: str

    @property
    def place(self) -> str:
        """Return the source line that raised: failures of one bug have the same."""
        frames = [line for line in self.text.splitlines() if line.startswith("  File ")]
        return frames[-1] if frames else self.text


def engine_choice(seed: int, number: int) -> random.Random:
    """Return the generator that chooses the engine of an input, and makes a store of Ignite."""
    return random.Random(f"{seed}/{number}/engine")


def is_ignite(rng: random.Random) -> bool:
    """Return True if an input is a store of Ignite."""
    return rng.random() < ignite.SHARE


def any_input(seed: int, number: int) -> Input:
    """Return the input with this number: a log, or a store of Ignite."""
    rng = engine_choice(seed, number)
    if is_ignite(rng):
        return Input(ignite.KIND, ignite.make_store(rng))
    return make_input(seed, number)


def check(seed: int, number: int, folder: Path) -> float:
    """Judge one input, and return the seconds of CPU that it took."""
    home = folder / "env"
    made = any_input(seed, number)
    write_input(made, home)
    started = time.process_time()
    try:
        if made.kind == ignite.KIND:
            judge_store(home)
        else:
            judge(home, random.Random(f"{seed}/{number}/judge"))
        return time.process_time() - started
    finally:
        shutil.rmtree(home)


def write_input(made: Input, home: Path) -> None:
    """Write the files of an input into a new folder."""
    home.mkdir(parents=True)
    for name, data in made.files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def failure_of(seed: int, number: int, folder: Path) -> Failure | None:
    """Judge one input, and return its failure, if any."""
    try:
        if check(seed, number, folder) > SLOW and (again := check(seed, number, folder)) > SLOW:
            return Failure(number, f"took {again:.1f} s of CPU")
    except Exception:
        return Failure(number, traceback.format_exc())
    return None


def anonymous_memory() -> int:
    """Return the bytes of anonymous memory that this process holds."""
    resident, shared = Path("/proc/self/statm").read_text(encoding="ascii").split()[1:3]
    return (int(resident) - int(shared)) * PAGE


def run_share(plan: Plan, current: Any, progress: Any, failures: Any) -> None:
    """Judge a share of the inputs, in a process of its own.

    Args:
        plan: the share.
        current: shared; the number of the current input, and its start time.
        progress: shared; the number of inputs done.
        failures: queue of Failure.
    """
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for number in range(WARM_UP):
            current[:] = number, time.monotonic()
            failure_of(plan.seed, number, folder)
        limit_memory()
        before = anonymous_memory()
        for number in plan.numbers():
            current[:] = number, time.monotonic()
            failure = failure_of(plan.seed, number, folder)
            if failure:
                failures.put(failure)
            grown = anonymous_memory() - before
            if grown > GROWTH:
                failures.put(Failure(number, f"the process has grown by {grown >> 20} MiB"))
                break
            progress.value += 1
    current[:] = -1, 0


def limit_memory() -> None:
    """Limit address space: an input that asks for more than MEMORY gets a MemoryError."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * PAGE
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


class Share:
    """A process with a share of the inputs."""

    def __init__(self, context: Any, plan: Plan, failures: Any) -> None:
        self.current = context.Array("d", [0, time.monotonic()])
        self.progress = context.Value("q", 0)
        self.process = context.Process(
            target=run_share, args=(plan, self.current, self.progress, failures)
        )
        self.process.start()

    def ended(self) -> Failure | None:
        """Return the failure of a process that died or hangs; one that hangs is killed."""
        number, began = self.current[:]
        if self.process.is_alive():
            if not began or time.monotonic() - began < HUNG:
                return None
            self.process.kill()
            self.process.join()
            return Failure(int(number), f"hangs for {HUNG:.0f} s")
        code = self.process.exitcode
        return Failure(int(number), f"the process died, exit code {code}") if code else None


def run(whole: Plan, processes: int) -> tuple[int, list[Failure]]:
    """Judge inputs in several processes; return the number done, and the failures."""
    context = multiprocessing.get_context("spawn")
    failures = context.Queue()
    shares = [
        Share(context, replace(whole, first=whole.first + n, step=processes), failures)
        for n in range(processes)
    ]
    found: list[Failure] = []
    left, told = list(shares), time.monotonic()
    while left:
        for share in list(left):
            failure = share.ended()
            if failure:
                found.append(failure)
            if failure or not share.process.is_alive():
                left.remove(share)
        with suppress(queue.Empty):
            found.append(failures.get(timeout=0.2))
        if time.monotonic() - told > 30:
            told = time.monotonic()
            done = sum(share.progress.value for share in shares)
            print(f"{done:,} inputs of {whole.inputs - whole.first:,} numbers", flush=True)
    while not failures.empty():
        found.append(failures.get())
    return sum(share.progress.value for share in shares), found


def keep(seed: int, failure: Failure, folder: Path) -> Path:
    """Write the files of a failing input and its failure, and return their folder."""
    home = folder / f"{seed}-{failure.number}"
    shutil.rmtree(home, ignore_errors=True)
    write_input(any_input(seed, failure.number), home)
    (home / "failure.txt").write_text(failure.text, encoding="utf-8")
    return home


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz FUZZ='…'", description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (%(default)s)")
    parser.add_argument("--ignite", action="store_true", help="only stores of Ignite among them")
    parser.add_argument("--seed", type=int, default=1, help="of all inputs (%(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--only", type=int, metavar="ITERATION", help="judge one input again")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="for failing inputs")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    started = time.monotonic()
    if options.only is not None:
        warnings.simplefilter("error")
        with tempfile.TemporaryDirectory() as made:
            failure = failure_of(options.seed, options.only, Path(made))
        done, failures = 1, [failure] if failure else []
    else:
        deadline = time.monotonic() + options.seconds
        stop = options.first + options.inputs
        plan = Plan(options.seed, stop, options.first, 1, deadline, options.ignite)
        done, failures = run(plan, options.processes)
    # Keep one failure of each bug: the first.
    by_place = {each.place: each for each in sorted(failures, key=lambda f: -f.number)}
    for failure in by_place.values():
        home = keep(options.seed, failure, options.keep)
        print(f"\n{home}: {failure.text}")
        print(f"again: make fuzz FUZZ='--seed {options.seed} --only {failure.number}'")
    took = time.monotonic() - started
    print(f"{done:,} inputs of seed {options.seed} in {took:.0f} s: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
