"""Forensics and maintenance of Berkeley DB Java Edition logs, and of Apache Ignite's stores.

    env = je_tools.open("meta/bdb")
    env.entries(type="INS_LN_TX").to_table()
    store = je_tools.open_store("/var/lib/ignite")
    store.records("accounts").to_table()

docs/python.md shows the rest. Importing this package loads nothing else: names are loaded on use.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""As in `typing`, whose import takes longer than everything else here."""

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from je_tools import errors
    from je_tools.api.batches import ArrowBatches
    from je_tools.api.environment import EnvironmentReader
    from je_tools.api.store import StoreReader
    from je_tools.api.verification import Verification
    from je_tools.doctor.facts import Diagnosis
    from je_tools.findings import Finding, Severity
    from je_tools.group.members import GroupRecords
    from je_tools.ignite.examination import StoreExamination, StoreFinding
    from je_tools.ignite.info import NodeInfo
    from je_tools.ignite.node_findings import NodeFinding
    from je_tools.ignite.recovery.plan import NodePlan
    from je_tools.journal.report import JournalReport
    from je_tools.records.databases import DatabaseRow
    from je_tools.recovery.plan import Plan
    from je_tools.vlsn.node_state import NodeState

__version__ = "0.1.0"

__all__ = [
    "ArrowBatches",
    "DatabaseRow",
    "Diagnosis",
    "EnvironmentReader",
    "Finding",
    "GroupRecords",
    "JournalReport",
    "NodeFinding",
    "NodeInfo",
    "NodePlan",
    "NodeState",
    "Plan",
    "Severity",
    "StoreExamination",
    "StoreFinding",
    "StoreReader",
    "Verification",
    "__version__",
    "errors",
    "open",
    "open_store",
]

_PLACES = {
    "ArrowBatches": "je_tools.api.batches",
    "DatabaseRow": "je_tools.records.databases",
    "Diagnosis": "je_tools.doctor.facts",
    "EnvironmentReader": "je_tools.api.environment",
    "Finding": "je_tools.findings",
    "GroupRecords": "je_tools.group.members",
    "JournalReport": "je_tools.journal.report",
    "NodeFinding": "je_tools.ignite.node_findings",
    "NodeInfo": "je_tools.ignite.info",
    "NodePlan": "je_tools.ignite.recovery.plan",
    "NodeState": "je_tools.vlsn.node_state",
    "Plan": "je_tools.recovery.plan",
    "Severity": "je_tools.findings",
    "StoreExamination": "je_tools.ignite.examination",
    "StoreFinding": "je_tools.ignite.examination",
    "StoreReader": "je_tools.api.store",
    "Verification": "je_tools.api.verification",
}
"""Public types, and the modules that define them."""


def open(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    threads: int = 0,
    data: str = "show",
) -> EnvironmentReader:
    """Open a log for reading: an environment's home directory, or log files of one log.

    It takes no lock and writes nothing. The result can be used with or without `with`.

    Args:
        paths: home directory, or one or several log files (.jdb, .del, .bad, .bup). Without the
            whole directory, only `entries` and `verify` work.
        threads: threads that read; 0 for one a core, at most 4 where entries are decoded.
        data: form in which keys and values are shown, also in findings: `show`, `hide`, `length`,
            `hash`, or `salted-hash`, whose salt is that of the returned object.

    Raises:
        je_tools.errors.InputError: there is no such path, or no log in it.
        je_tools.errors.UsageError: nothing or several logs are named, or another argument is not
            valid.
        je_tools.errors.StoppedError: a file vanished meanwhile.
    """
    from je_tools.api.environment import EnvironmentReader

    return EnvironmentReader(paths, threads=threads, data=data)


def open_store(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    node: str | Iterable[str] | None = None,
    threads: int = 0,
    data: str = "show",
) -> StoreReader:
    """Open a persistent store of Apache Ignite for reading.

    It takes no lock and writes nothing. The result can be used with or without `with`.

    Args:
        paths: the work directory of one or more nodes, its folder `db`, or the folder of a node; or
            folders and files of segments of one node, which only `nodes` and `log` can read.
        node: names of the nodes to read; None for all.
        threads: threads that read; 0 for one a core.
        data: form in which batches show keys and values, as for `open`.

    Raises:
        je_tools.errors.InputError: there is no such path, or no store in it.
        je_tools.errors.UsageError: no node has such a name, or another argument is not valid.
    """
    from je_tools.api.store import StoreReader

    return StoreReader(paths, node=node, threads=threads, data=data)


def __getattr__(name: str) -> object:
    """Load a public name on its first use."""
    import importlib

    if name == "errors":
        return importlib.import_module("je_tools.errors")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
