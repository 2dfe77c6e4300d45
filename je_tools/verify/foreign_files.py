"""Foreign files: files that belong to the log of another node, or to another time.

The nodes of a group have the same records in files of the same numbers, but at other offsets and
with other ids. Between a file and an earlier one of the same log, these rules hold:

- the header of a file names the last entry of the file before it;
- ids and LSNs in CkptEnds ascend;
- VLSNs continue, and creation times ascend.

This module collects contradictions to them. The file that takes part in most contradictions is the
foreign one. Damage alone is no contradiction.

Source: je-log.md "The file header" and "Checkpoints"; FileManager, Checkpointer, CheckpointEnd,
JE 5.0.73 and 18.3.12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

from je_tools.findings import Finding, Severity
from je_tools.formats.je.header import lsn_of, lsn_text
from je_tools.formats.je.types import CKPT_END_NO, mask_of
from je_tools.log.file_findings import finding
from je_tools.log.sources import fields_at, reopened

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState
    from je_tools.log.log_files import LogFile

SAMPLED_TYPES = mask_of((CKPT_END_NO,))
"""Types of which `ForeignFiles` reads some entries of each file."""

_TEXTS_MAX = 3

_ASCENDING = (
    "ckpt_start_lsn",
    "first_active_lsn",
    "last_local_node_id",
    "last_local_db_id",
    "last_local_txn_id",
)
_DESCENDING = ("last_replicated_node_id", "last_replicated_db_id", "last_replicated_txn_id")


class Sign(StrEnum):
    """Kinds of contradictions between two files."""

    LINK = "link"
    """The header of a file names another last entry of the file before."""
    CHECKPOINT = "checkpoint"
    VLSN = "vlsn"
    TIME = "time"
    LENGTH = "length"
    """The header of a file names an entry after the end of the file before."""


class _Contradiction(Struct, frozen=True):
    """A contradiction between a file and an earlier one, by their numbers."""

    first_no: int
    second_no: int
    sign: Sign
    text: str


class ForeignFiles(Struct):
    """Collector of contradictions between the files of a log; add its files in log order.

    Attributes:
        environment: the log.
    """

    environment: Environment
    _found: list[_Contradiction] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)
    _before: LogFile | None = None
    _checkpoint: tuple[int, Mapping[str, Any]] | None = None
    _misnamed: set[int] = field(default_factory=set)

    @property
    def is_applicable(self) -> bool:
        """True for a directory of several files: files named one by one may be of several logs."""
        return self.environment.is_directory and len(self.environment.files) > 1

    def add(self, offsets: Ints) -> None:
        """Add the offsets of sampled entries of the file that is being read."""
        if self.is_applicable and len(offsets):
            self._offsets += offsets.tolist()

    def pass_over(self) -> None:
        """Continue after a file that could not be read to its end."""
        self._offsets, self._before = [], None

    def end_file(self, state: FileState, links: Sequence[Finding]) -> None:
        """Add a file that has been read to its end.

        Args:
            state: state of the file.
            links: findings of the link from the next file to this one.
        """
        if not self.is_applicable:
            return
        file, before = state.file, self._before
        if file.header.file_no not in (None, file.file_no):
            self._misnamed.add(file.file_no)
        for each in links:
            sign = Sign.LENGTH if each.code == "truncated-file" else Sign.LINK
            found = f"{each.found}, and its header names {each.expected}"
            self._note(file.file_no, file.file_no + 1, sign, f"the last entry is at {found}")
        if before is not None and before.header.good and file.header.good:
            self._compare_times(before, file)
        if not state.chain_breaks and not state.gaps:
            self._compare_checkpoints(file, self._offsets)
        self._offsets, self._before = [], file

    def add_vlsns(self, first_no: int, found: Finding) -> None:
        """Add a finding of VLSNs that do not continue those of an earlier file."""
        if self.is_applicable and found.file_no is not None:
            text = f"VLSNs continue with {found.found} instead of {found.expected}"
            self._note(first_no, found.file_no, Sign.VLSN, text)

    def _note(self, first_no: int, second_no: int, sign: Sign, text: str) -> None:
        if first_no != second_no:
            self._found.append(_Contradiction(first_no, second_no, sign, text))

    def _compare_times(self, before: LogFile, file: LogFile) -> None:
        created, earlier = file.header.created_ms, before.header.created_ms
        if created and earlier and created < earlier:
            times = [f"{np.datetime64(each, 'ms')}Z" for each in (created, earlier)]
            text = f"{file.path.name} was created at {times[0]}, before {before.path.name}"
            self._note(before.file_no, file.file_no, Sign.TIME, f"{text} at {times[1]}")

    def _compare_checkpoints(self, file: LogFile, offsets: Sequence[int]) -> None:
        """Compare the first CkptEnd of a file with the last one of an earlier file."""
        if not offsets:
            return
        with reopened(file.path, offsets[-1]) as source:
            for offset in dict.fromkeys((offsets[0], offsets[-1])):
                fields = fields_at(source, offset, file.version)
                if "ckpt_id" not in fields:
                    continue
                lsn = lsn_of(file.file_no, offset)
                if self._checkpoint is not None and self._checkpoint[0] >> 32 != file.file_no:
                    self._compare_checkpoint(*self._checkpoint, lsn, fields)
                self._checkpoint = lsn, fields

    def _compare_checkpoint(
        self, earlier_lsn: int, earlier: Mapping[str, Any], lsn: int, fields: Mapping[str, Any]
    ) -> None:
        wrong = [] if fields["ckpt_id"] > earlier["ckpt_id"] else ["ckpt_id"]
        for names, sign in ((_ASCENDING, 1), (_DESCENDING, -1)):
            known = [name for name in names if name in fields and name in earlier]
            wrong += [name for name in known if sign * fields[name] < sign * earlier[name]]
        if wrong:
            name = wrong[0]
            values = [
                lsn_text(each[name]) if name.endswith("lsn") else each[name]
                for each in (fields, earlier)
            ]
            later = f"{name} is {values[0]} in the CkptEnd at {lsn_text(lsn)}"
            text = f"{later}, and {values[1]} in the earlier one at {lsn_text(earlier_lsn)}"
            self._note(earlier_lsn >> 32, lsn >> 32, Sign.CHECKPOINT, text)

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each foreign file, after all files have been added.

        Files whose header has another number are left out: their own finding says more.
        """
        misnamed = self._misnamed
        self._found = [
            each for each in self._found if not {each.first_no, each.second_no} & misnamed
        ]
        if self._is_proven():
            yield from self._foreign()
            return
        for each in self._found:
            if each.sign is Sign.TIME:
                yield self._finding([each], each.second_no, Severity.WARNING)

    def _is_proven(self) -> bool:
        """Return True if only a file of another log explains the contradictions.

        Damage may explain a single contradiction of links or VLSNs, which has its own finding.
        """
        signs = {each.sign for each in self._found}
        pairs = Counter(
            pair for pair, _ in {((a.first_no, a.second_no), a.sign) for a in self._found}
        )
        is_linked = Sign.LINK in signs and len(self._found) > 1
        is_twice = max(pairs.values(), default=0) > 1
        return Sign.CHECKPOINT in signs or is_linked or is_twice

    def _foreign(self) -> Iterator[Finding]:
        """Yield a finding for each of the fewest files that explain all contradictions."""
        left = self._found
        while left:
            pairs = {(each.first_no, each.second_no) for each in left}
            counts = Counter(no for pair in pairs for no in pair)
            weights = Counter(no for each in left for no in (each.first_no, each.second_no))
            most = max(counts, key=lambda no: (counts[no], weights[no], no))
            own = [each for each in left if most in (each.first_no, each.second_no)]
            left = [each for each in left if each not in own]
            yield self._finding(own, most)

    def _finding(
        self, own: Sequence[_Contradiction], file_no: int, severity: Severity | None = None
    ) -> Finding:
        others = sorted({no for each in own for no in (each.first_no, each.second_no)} - {file_no})
        texts = list(dict.fromkeys(each.text for each in sorted(own, key=_order)))
        more = len(texts) - _TEXTS_MAX
        found = "; ".join([*texts[:_TEXTS_MAX], *([f"{more} more"] if more > 0 else [])])
        if len(others) == 1:
            found += f"; it may also be {others[0]:08x}.jdb that is foreign"
        names = " and ".join(f"{no:08x}.jdb" for no in others)
        return finding(
            self.environment,
            "foreign-file",
            severity,
            file_no=file_no,
            expected=f"a file of the same log as {names}",
            found=found,
        )


def _order(each: _Contradiction) -> int:
    return list(Sign).index(each.sign)
