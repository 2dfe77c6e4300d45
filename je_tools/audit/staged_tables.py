"""Staged tables: the files that one task of the judging step writes."""

from __future__ import annotations

from pathlib import Path

from je_tools.audit import tables as t
from je_tools.audit.staged_members import MEMBERS
from je_tools.audit.staging import FACTS, TAKEN, TableWriter

SCHEMAS = {
    **{table.name: table.schema for table in (*t.TABLES, *t.STAKE_TABLES)},
    "taken": TAKEN,
    "facts": FACTS,
    "members": MEMBERS,
}
"""Schemas of the tables in the staging folder, each in a folder of its name."""


class StagedTables:
    """Writers of one task; all its files are below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers = {name: TableWriter(folder / name, s) for name, s in SCHEMAS.items()}

    def __getitem__(self, name: str) -> TableWriter:
        return self._writers[name]

    def close(self) -> dict[str, str]:
        """Finish all files; return their paths by table name."""
        closed = {name: writer.close() for name, writer in self._writers.items()}
        return {name: str(path) for name, path in closed.items() if path is not None}
