"""The format `jefindings`: damage of logs, as `verify` reports it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from je_tools.audit.reasons import why_unread
from je_tools.audit.rows import STORE_COLUMNS, finding_row, unread_finding
from je_tools.audit.tables import FINDINGS
from je_tools.log.scan import Scanner
from je_tools.spark.columns import ENV, chosen, spark_batch, spark_schema
from je_tools.spark.query import (
    COLUMNS,
    PLACES,
    TASKS,
    CommonOptions,
    Relation,
    Task,
    parse_common,
)
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals

if TYPE_CHECKING:
    from je_tools.audit.discover import UnreadPath
    from je_tools.findings import Finding
    from je_tools.spark.option_texts import OptionTexts
    from je_tools.spark.places import Log

OPTIONS: Mapping[str, str] = {**PLACES, **COLUMNS, **TASKS}
"""Every option, and its description."""

ROWS_AT_ONCE = 10_000
"""Findings in a batch."""


class FindingQuery(Struct, frozen=True):
    """Parsed options of a read of findings."""

    common: CommonOptions

    def tasks(self, columns: tuple[str, ...], cores: int) -> list[Task]:
        """Return tasks for the environments, each of which is read by one task."""
        found = self.common.places.open()
        tasks: list[Task] = [
            FindingTask(group, (), columns) for group in self.common.by_log(found.logs, cores)
        ]
        if found.problems:
            tasks.append(FindingTask((), found.problems, columns))
        return tasks


class FindingTask(Struct, frozen=True):
    """Input of one task; it pickles.

    Attributes:
        logs: environments to verify.
        problems: what could not be opened: each is a finding.
        columns: names of the columns, in order.
    """

    logs: tuple[Log, ...]
    problems: tuple[UnreadPath, ...]
    columns: tuple[str, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the findings of each environment in the order of `verify`.

        What cannot be read to its end is a finding as well.
        """
        schema = chosen(FINDING_ROWS.schema(), self.columns)
        for problem in self.problems:
            yield _batch([unread_finding(problem.env, problem.reason)], problem.env, schema)
        for log in self.logs:
            found = _findings(log)
            while some := list(islice(found, ROWS_AT_ONCE)):
                yield _batch(some, log.env, schema)


def _findings(log: Log) -> Iterator[Finding]:
    scanner = Scanner(threads=1, wide=True)
    try:
        yield from verify(log.environment, scanner, Totals(log.env))
    except OSError as error:
        yield unread_finding(log.env, str(error.strerror))
    except Exception as error:
        yield unread_finding(log.env, why_unread(error))


def _batch(found: list[Finding], env: str, schema: pa.Schema) -> pa.RecordBatch:
    whole = FINDINGS.schema
    rows = [dict(zip(whole.names, finding_row(each, env), strict=True)) for each in found]
    return spark_batch(pa.RecordBatch.from_pylist(rows, whole), env, schema)


def parse_finding_query(texts: OptionTexts) -> FindingQuery:
    """Parse the options of `jefindings`.

    Raises:
        UsageError: a value is not valid.
    """
    return FindingQuery(parse_common(texts))


@functools.cache
def _schema() -> pa.Schema:
    return spark_schema(f for f in FINDINGS.schema if f.name not in (ENV, *STORE_COLUMNS))


FINDING_ROWS = Relation("jefindings", OPTIONS, _schema, parse_finding_query)
"""The format `jefindings`."""
