"""Environments that the engine writes under stress; a seed determines each, except for threads."""

from __future__ import annotations

import atexit
import functools
import random
import shutil
from pathlib import Path

from tests.engine.recovered import Engine
from tests.truth.contents import Refusal

HALT, HALT_BUSY, CLOSE = 0, 1, 2
ATTEMPTS = 3
OWN_FAULTS = ("DirtyINMap.selectDirtyINsForCheckpoint", "Tree.getNextIN")
"""Methods in which the engine itself can fail; the workload is then written again.

JE 5.0.73 fails if a checkpoint meets a database that is being created, 18.3.12 if several threads
split and merge small nodes.
"""

LONGEST_SECONDS = 1200

Options = dict[str, int]
"""Options of Stress.java."""


SPARSE = {"load": 2500, "keys": 4000, "nodeMax": 128, "transactions": 80}
"""Few changes in trees of some size: most nodes have few changes when the engine stops."""

SERIAL = {"threads": 1, "daemons": 0}
"""One thread writes everything."""


def sessions_of(
    seed: int,
    *,
    ttl: bool = True,
    small: bool = False,
    sparse: bool = False,
    serial: bool = False,
) -> list[Options]:
    """Return the options of an environment: one run of the engine, or several in sequence.

    Args:
        seed: determines all options.
        ttl: records may expire; engines before 7.0 have no such records, and cannot change the
            size of existing nodes.
        small: write some hundred kilobytes instead of some megabytes.
        sparse: write trees and close, then make a few changes.
        serial: use one thread and no daemons, so that the seed determines every entry.
    """
    rng = random.Random(f"workload {seed}")
    first = _options(rng, ttl)
    if sparse:
        first |= SPARSE | {"large": min(first["large"], 2_000)}
        return [first | {"transactions": 0, "end": CLOSE}, first | {"load": 0}]
    if small:
        first["transactions"] = min(first["transactions"], 120)
        first["load"] = min(first["load"], 200)
    sessions = [first]
    while len(sessions) < 3 and rng.random() < 0.3:
        # The purpose of a database stays, the way it is written changes.
        kept = ("ttl", "deferred", "keys", "transactions", *(() if ttl else ("nodeMax",)))
        fixed = {name: first[name] for name in kept}
        sessions.append(_options(rng, ttl) | fixed | {"load": 0})
    for session in sessions:
        session["transactions"] //= len(sessions)
        session |= SERIAL if serial else {}
    return sessions


def _options(rng: random.Random, ttl: bool) -> Options:
    daemons = rng.random() < 0.4
    expires = ttl and rng.random() < 0.5
    end = rng.choice([HALT, HALT, HALT_BUSY, CLOSE])
    return {
        "seed": rng.randrange(1 << 30),
        "threads": rng.choice([1, 2, 3, 5]),
        "transactions": rng.choice([60, 200, 400]),
        "load": rng.choice([0, 200, 1500]),
        "keys": rng.choice([60, 500, 4000]),
        "nodeMax": rng.choice([4, 5, 7, 16, 60, 128]),
        "fileMax": 1_000_000,
        "cache": rng.choice([300_000, 600_000]) if daemons else rng.choice([500_000, 16_000_000]),
        "buffers": rng.choice([50_000, 1_000_000]),
        "embedded": rng.choice([0, 16, 16, 80]),
        "daemons": int(daemons),
        "checkpoints": rng.choice([0, 0, 1, 3, 8]),
        "clean": int(rng.random() < 0.2),
        "expunge": int(rng.random() < 0.3),
        "structure": int(rng.random() < 0.6),
        "large": rng.choice([0, 2_000, 20_000]),
        "ttl": int(expires),
        "jumps": rng.choice([0, 2, 6]) if expires else 0,
        "deferred": int(rng.random() < 0.15),
        "unclosed": rng.choice([0, 1, 3]),
        # A close can wait ten seconds for the thread that does this.
        "extinct": int(end != CLOSE and rng.random() < 0.5),
        "end": end,
    }


def write_environment(java: Path, class_path: str, home: Path, sessions: list[Options]) -> None:
    """Let the engine write an environment.

    Raises:
        RuntimeError: the engine or the workload failed; the text is the output.
    """
    for _ in range(ATTEMPTS):
        failure = _write(java, class_path, home, sessions)
        if not any(fault in failure for fault in OWN_FAULTS):
            break
        shutil.rmtree(home)
    if failure:
        raise RuntimeError(failure)


@functools.cache
def _stress(java: Path, class_path: str) -> Engine:
    """Return the JVM that writes environments with an engine until this process ends."""
    engine = Engine(java, class_path, LONGEST_SECONDS, program="Stress")
    atexit.register(engine.__exit__)
    return engine


def _write(java: Path, class_path: str, home: Path, sessions: list[Options]) -> str:
    """Write an environment, and return what failed, or an empty string."""
    home.mkdir(parents=True)
    for session in sessions:
        words = [f"{name}={value}" for name, value in session.items()]
        told = _stress(java, class_path).tell(home, *words)
        if told:
            text = str(told) if isinstance(told, Refusal) else "".join(told)
            return f"{session}:\n{text}"
    return ""
