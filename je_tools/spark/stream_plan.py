"""Micro-batches of a stream of entries: offsets, and tasks between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.dump.entries import ResolvedSelection, read_names_and_times
from je_tools.errors import StoppedError, UsageError
from je_tools.formats.je.header import lsn_text
from je_tools.log.scan import Scanner
from je_tools.spark.entry_plan import EntryQuery, LogPiece
from je_tools.spark.entry_reading import LogPieces
from je_tools.spark.growth import BEGIN, LogEnds, Offset, pieces_between

if TYPE_CHECKING:
    from je_tools.log.file_scan import FilePiece
    from je_tools.spark.places import Log
    from je_tools.spark.query import Task


class KnownNames(Struct):
    """Names of the databases of a log, which are read once.

    Attributes:
        upto: LSN up to which the log was read, as text.
        names: names by id.
    """

    upto: str = BEGIN
    names: dict[int, str] = field(default_factory=dict)


class StreamPlan(Struct):
    """A stream of entries.

    Attributes:
        query: what is read.
        columns: names of the columns, in order.
        cores: number of tasks that run at once; 0 if unknown.
        ends: ends of the logs.
        names: names of databases, by environment.
    """

    query: EntryQuery
    columns: tuple[str, ...]
    cores: int
    ends: LogEnds
    names: dict[str, KnownNames] = field(default_factory=dict)

    @classmethod
    def of(cls, query: EntryQuery, columns: tuple[str, ...], cores: int) -> StreamPlan:
        """Return the plan of a new stream.

        Raises:
            UsageError: an option needs the whole log.
        """
        if query.selection.needs_times:
            raise UsageError(
                "options since and until: a stream does not know the times of entries before "
                "their transaction ends; use where() on txn_end.time_ms"
            )
        return cls(query, columns, cores, LogEnds(query.check))

    def latest(self) -> dict[str, str]:
        """Return the LSNs after the last complete entries.

        Raises:
            UsageError: single files are named.
            InputError: a log cannot be opened.
            StoppedError: a log was cut back, or a file vanished meanwhile.
        """
        return {
            log.env: lsn_text(self.ends.end_of(log.env, log.environment)) for log in self._logs()
        }

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        """Return tasks that together yield each entry between two offsets once.

        Raises:
            StoppedError: an environment or a file is gone, or a log was cut back.
            InputError: a log cannot be opened.
        """
        query, skips = self.query, self.query.common.places.skips
        logs = {log.env: log for log in self._logs()}
        gone = sorted((start.keys() - end.keys()) | (end.keys() - logs.keys()))
        if gone and not skips:
            raise StoppedError(f"{gone[0]}: the stream has read this environment, and it is gone")
        envs = [env for env in sorted(end) if env in logs]
        found = [
            LogPiece(no, piece)
            for no, env in enumerate(envs)
            for piece in pieces_between(
                logs[env].environment, start.get(env, BEGIN), end[env], skips=skips
            )
            if query.wants(piece.file.file_no)
        ]
        share = query.common.share(sum(each.size for each in found), self.cores)
        pieces = [
            LogPiece(each.log_no, piece) for each in found for piece in query.cut(each.piece, share)
        ]
        prepared = {
            no: self._prepared(logs[envs[no]], end[envs[no]])
            for no in dict.fromkeys(each.log_no for each in pieces)
        }

        def part_of(log_no: int, own: tuple[FilePiece, ...]) -> LogPieces:
            return LogPieces(envs[log_no], own, prepared[log_no])

        return query.tasks_for(pieces, share, part_of, self.columns)

    def _logs(self) -> list[Log]:
        logs = list(self.query.common.places.readable())
        for log in logs:
            if not log.environment.is_directory:
                raise UsageError(f"{log.env}: single files; a stream reads whole environments")
        return logs

    def _prepared(self, log: Log, end: str) -> ResolvedSelection:
        """Return the selection, and the names in the log up to an LSN."""
        query = self.query
        resolver = query.resolver("db" in self.columns, must_exist=False)
        if not resolver.is_needed:
            return ResolvedSelection({}, query.selection)
        known = self.names.setdefault(log.env, KnownNames())
        for piece in pieces_between(log.environment, known.upto, end, skips=True):
            one = replace(log.environment, files=(piece.file,))
            scanner = Scanner(check=query.check, start=piece.place.at)
            known.names.update(read_names_and_times(one, query.selection, scanner).names)
        known.upto = end
        return resolver.with_names(query.selection, dict(known.names))
