"""Findings: what is wrong with a log, as rows. Damage is data, never an exception."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from je_tools.formats.je.header import lsn_of, lsn_text


class Severity(StrEnum):
    """How bad a finding is: an error is damage, a note is worth knowing."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Code:
    """What a finding code stands for.

    Attributes:
        name: its spelling in every output.
        severity: what it usually is; a finding may differ and then says why.
        meaning: what was seen.
        hint: what to do next.
    """

    name: str
    severity: Severity
    meaning: str
    hint: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; the same columns in every output.

    Attributes:
        code: a key of CODES.
        severity: of this finding.
        env: the environment, as it was named on the command line.
        file_no: number of the file, or None where it concerns the directory.
        offset, length: byte range in the file.
        resume_offset: where good entries go on behind it, or None.
        expected, found: what should be there and what is.
        hint: what to do next.
    """

    code: str
    severity: Severity
    env: str
    file_no: int | None = None
    offset: int | None = None
    length: int | None = None
    resume_offset: int | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None

    @property
    def lsn(self) -> int | None:
        """LSN of the first byte concerned."""
        if self.file_no is None or self.offset is None:
            return None
        return lsn_of(self.file_no, self.offset)

    @property
    def resume_lsn(self) -> int | None:
        """LSN of the entry where reading goes on."""
        if self.file_no is None or self.resume_offset is None:
            return None
        return lsn_of(self.file_no, self.resume_offset)

    def row(self) -> dict[str, str | int | None]:
        """The finding as the columns of every text output, LSNs spelled 0x…/0x…."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "env": self.env,
            "file_no": self.file_no,
            "offset": self.offset,
            "length": self.length,
            "lsn": None if self.lsn is None else lsn_text(self.lsn),
            "resume_lsn": None if self.resume_lsn is None else lsn_text(self.resume_lsn),
            "expected": self.expected,
            "found": self.found,
            "hint": self.hint,
        }
