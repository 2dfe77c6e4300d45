"""Cleanup of the staging folder once it is known which attempts of tasks count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from je_tools.audit.fleet import rows_in_parts
from je_tools.audit.staging import PARTS, WHOLE_TXNS, TableWriter


def leave_what_counts(staging: Path) -> list[str]:
    """Remove staged transactions of pieces that do not count; return the files of whole ones."""
    pieces: dict[str, list[dict[str, Any]]] = {}
    for piece in pq.read_table(staging / "taken").to_pylist():
        pieces.setdefault(piece["attempt"], []).append(piece)
    for folder, place in ((WHOLE_TXNS, ("env", "file_no")), (PARTS, ("env_no", "file_index"))):
        for path in (staging / folder).glob("*.parquet"):
            counting = pieces.get(path.stem, [])
            if not counting:
                path.unlink()
            elif len(counting) < counting[0]["piece_count"]:
                _leave_rows(path, *place, counting)
    return sorted(map(str, (staging / WHOLE_TXNS).glob("*.parquet")))


def _leave_rows(path: Path, env: str, number: str, counting: list[dict[str, Any]]) -> None:
    """Rewrite a staged file with the rows of some of its pieces; remove it if there are none.

    Args:
        path: path of the file.
        env, number: columns of the pieces that identify where rows come from; rows have `env` too.
        counting: the pieces whose rows stay.
    """
    envs = pa.array(list({piece[env]: None for piece in counting}))
    columns = [[piece[name] for piece in counting] for name in (env, number)]
    wanted = _places(pa.array(columns[0]), np.array(columns[1], np.int64), envs)
    data = ds.dataset(str(path), format="parquet")
    writer = TableWriter(path.parent, data.schema, path.stem)
    for rows in rows_in_parts(data, data.schema.names):
        is_lsn = "begin_lsn" in rows.schema.names
        numbers = rows["begin_lsn" if is_lsn else number].to_numpy()
        file_or_index = numbers >> 32 & 0xFFFFFFFF if is_lsn else numbers
        is_wanted = np.isin(_places(rows[env].cast(envs.type), file_or_index, envs), wanted)
        writer.write(rows.filter(pa.array(is_wanted)))
    if writer.close() is None:
        path.unlink()


def _places(env: Any, number: Any, envs: Any) -> Any:
    """Combine environments and 32-bit numbers into int64; negative for an unknown environment."""
    index = pc.fill_null(pc.index_in(env, envs), -1).to_numpy().astype(np.int64)
    return index << 32 | number
