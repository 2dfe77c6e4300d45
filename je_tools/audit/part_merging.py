"""Merging of small part files: a fleet that many tasks read leaves few files of each table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from je_tools.audit.table_writer import TableWriter
from je_tools.core.shares import shares_of

if TYPE_CHECKING:
    from je_tools.audit.task_data import Written

PARTS_MAX = 64
"""Number of files of a table up to which all stay as they are."""

SMALL_SIZE = 4 << 20
"""Bytes below which one of more files is merged with others."""

MERGED_SIZE = 64 << 20
"""Approximate size of a merged file, in bytes."""


def merge_parts(written: Written, staging: Path) -> Written:
    """Merge small files of tables that have many; return the files of all tables.

    A few megabytes of rows are held at a time. Merged files are removed. A file with other links is
    kept for later runs, and stays.

    Args:
        written: the table and the path of each file.
        staging: folder for the merged files.
    """
    by_table: dict[str, list[Path]] = {}
    for name, path in written:
        by_table.setdefault(name, []).append(Path(path))
    found = []
    for name, paths in by_table.items():
        merged = paths if len(paths) <= PARTS_MAX else _merged(paths, staging / name)
        found += [(name, str(path)) for path in merged]
    return found


def _merged(paths: list[Path], folder: Path) -> list[Path]:
    states = {path: path.stat() for path in paths}
    # A file that runs share would be copied by each of them: the next one takes it over as it is.
    small = [p for p, state in states.items() if state.st_size < SMALL_SIZE and state.st_nlink == 1]
    found = [path for path in paths if path not in set(small)]
    sizes = {path: states[path].st_size for path in small}
    for group in shares_of(small, sizes.__getitem__, MERGED_SIZE):
        writer: TableWriter | None = None
        for path in group:
            with pq.ParquetFile(path) as file:
                writer = writer or TableWriter(folder, file.schema_arrow)
                for number in range(file.num_row_groups):
                    writer.write(file.read_row_group(number, use_threads=False))
            path.unlink()
        merged = None if writer is None else writer.close()
        found += [] if merged is None else [merged]
    return found
