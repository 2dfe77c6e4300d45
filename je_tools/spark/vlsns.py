"""The format `jevlsn`: the replication stream, each VLSN with its LSN, as `vlsn show --stream`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.log.scan import Scanner
from je_tools.spark.columns import chosen, spark_batch, spark_schema
from je_tools.spark.damage import check_damage
from je_tools.spark.query import (
    COLUMNS,
    PLACES,
    TASKS,
    UNREADABLE,
    CommonOptions,
    Relation,
    Task,
    parse_common,
)
from je_tools.verify.state_findings import file_findings
from je_tools.vlsn.logged_stream import read_logged
from je_tools.vlsn.stream_columns import pieces_of, stream_batch, stream_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from je_tools.log.file_scan import FileState
    from je_tools.spark.option_texts import OptionTexts
    from je_tools.spark.places import Log

OPTIONS: Mapping[str, str] = {
    **PLACES,
    **COLUMNS,
    "rolled_back": "`true`: also the entries that rollbacks undid.",
    **TASKS,
    **UNREADABLE,
}
"""Every option, and its description."""


class VlsnQuery(Struct, frozen=True):
    """Parsed options of a read of streams; with `rolled_back`, also of entries not in them."""

    common: CommonOptions
    rolled_back: bool

    def tasks(self, columns: tuple[str, ...], cores: int) -> list[Task]:
        """Return tasks for the environments, each of which is read by one task."""
        skips = self.common.places.skips
        groups = self.common.by_log(self.common.places.readable(), cores)
        return [VlsnTask(group, columns, self.rolled_back, skips) for group in groups]


class VlsnTask(Struct, frozen=True):
    """Input of one task; it pickles.

    Attributes:
        logs: environments to read.
        columns: names of the columns, in order.
        rolled_back: include entries that rollbacks undid.
        skips: leave out what is damaged.
    """

    logs: tuple[Log, ...]
    columns: tuple[str, ...]
    rolled_back: bool
    skips: bool

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the entries of each stream in the order of their VLSNs.

        Raises:
            InputError: damage may cost entries, or a file cannot be read.
            StoppedError: a file shrank, vanished or was replaced meanwhile.
        """
        schema = chosen(VLSNS.schema(), self.columns)
        for log in self.logs:
            states: list[FileState] = []
            stream = read_logged(log.environment, Scanner(threads=1, wide=True), states.append)
            if not self.skips:
                found = (file_findings(log.environment, state) for state in states)
                check_damage(log.env, [each for findings in found for each in findings])
            rows = stream.in_vlsn_order(with_rolled_back=self.rolled_back)
            for some in pieces_of(rows):
                yield spark_batch(stream_batch(stream, some), log.env, schema)


def parse_vlsn_query(texts: OptionTexts) -> VlsnQuery:
    """Parse the options of `jevlsn`.

    Raises:
        UsageError: a value is not valid.
    """
    return VlsnQuery(parse_common(texts), texts.flag("rolled_back"))


@functools.cache
def _schema() -> pa.Schema:
    return spark_schema(stream_schema())


VLSNS = Relation("jevlsn", OPTIONS, _schema, parse_vlsn_query)
"""The format `jevlsn`."""
