"""Headers of log files: the first entry, read even if it is damaged.

Source: je-log.md "The file header"; FileManager, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.header import (
    FILE_HEADER_SIZE,
    EntryError,
    entry_checksum,
    invisible_mask,
    read_header,
)
from je_tools.formats.je.types import FILE_HEADER_NO, LOG_VERSION_MAX
from je_tools.formats.je.versions import stored_version
from je_tools.log.log_files import FileHeader

if TYPE_CHECKING:
    from je_tools.formats.files.source import Source

_BAD_SUM = "checksum is wrong"
_INVISIBLE = "flag invisible is set, and in a file header the engine sums it: the checksum is wrong"
"""Problem of a header that the engine refuses, although it does not sum this flag elsewhere.

Source: FileManager.readAndValidateFileHeader; the answers of JE 5.0.73 and 18.3.12.
"""


def read_file_header(source: Source) -> FileHeader:
    """Read the file header of an open log file; never raise on damaged bytes."""
    data = source.read_bytes(0, FILE_HEADER_SIZE)
    if len(data) < FILE_HEADER_SIZE:
        return FileHeader(good=False, problem=f"{len(data)} bytes, a header has {FILE_HEADER_SIZE}")
    header = read_header(data, LOG_VERSION_MAX)
    if header.type_no != FILE_HEADER_NO:
        found = f"entry type {header.type_no} instead of {FILE_HEADER_NO}"
        return FileHeader(good=False, problem=found, claim=stored_version(data))
    try:
        fields = decode_entry(data, LOG_VERSION_MAX).fields
    except EntryError as error:
        return FileHeader(good=False, problem=str(error), claim=stored_version(data))
    problem: str | None = None
    version = fields["log_version"]
    is_supported = 1 <= version <= LOG_VERSION_MAX
    if entry_checksum(data, version) != header.checksum:
        problem = _BAD_SUM
    elif header.flags & invisible_mask(version):
        problem = _INVISIBLE
    elif not is_supported:
        problem = f"log version {version}, known are 1 to {LOG_VERSION_MAX}"
    is_wrong = problem in (_BAD_SUM, _INVISIBLE)
    return FileHeader(
        good=problem is None,
        file_no=fields["header_file_no"],
        created_ms=fields["created_ms"],
        last_entry_in_prev_file_offset=fields["last_entry_in_prev_file_offset"],
        version=version,
        problem=problem,
        is_unsupported=not is_supported and not is_wrong,
        claim=stored_version(data) if is_wrong else None,
    )
