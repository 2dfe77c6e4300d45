"""Results of a search: hits, files, and the gaps that make the answer incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from je_tools.core.escaping import counted

if TYPE_CHECKING:
    from je_tools.erase.proof.file_manifest import FileChange
    from je_tools.erase.proof.hit_places import Where
    from je_tools.erase.proof.reported_run import ReportedRun
    from je_tools.erase.proof.scope import Scope


class NeedleFacts(Struct, frozen=True):
    """A needle and its hits.

    Attributes:
        number: its number, from 1.
        name: its hash.
        origin: option that named it.
        kind: kind of the needle.
        size: bytes; None for a regular expression.
        hit_count: number of its hits.
    """

    number: int
    name: str
    origin: str
    kind: str
    size: int | None
    hit_count: int


class Hit(Struct, frozen=True):
    """A place where a needle was found.

    Attributes:
        file: name of the file, as reports show it.
        offset: offset in the file; for a key that a prefix cuts in two, offset of the part in the
            slot; None for the name of a file.
        size: bytes of the hit.
        lsn: LSN of the entry in which it begins; None for none.
        type: type of the entry; None for none.
        where: kind of the place.
        needle: number of the needle.
        entry_offset: offset of the entry; None for none.
    """

    file: str
    offset: int | None
    size: int
    lsn: int | None
    type: str | None
    where: Where
    needle: int
    entry_offset: int | None = None


class SearchedFile(Struct):
    """A file that was searched.

    Attributes:
        name: its name as reports show it.
        kind: kind of the file.
        size: bytes when it was listed.
        read_size: bytes that were searched.
        hit_count: number of hits, also of those that are not listed.
        problems: reasons why something may be left although nothing was found.
        marked_count: number of entries of type 43 (Erased) that still have bytes.
        link_count: number of its hard links.
        change: change since an earlier manifest; None without one.
    """

    name: str
    kind: str
    size: int
    read_size: int
    hit_count: int
    problems: list[str] = field(default_factory=list)
    marked_count: int = 0
    link_count: int = 1
    change: FileChange | None = None


class Unread(Struct, frozen=True):
    """Something that was not read.

    Attributes:
        name: its name as reports show it.
        reason: why it was not read.
        may_hold: True if it may hold data.
    """

    name: str
    reason: str
    may_hold: bool


class SearchVerdict(StrEnum):
    """Answer of a search."""

    NOTHING_LEFT = "nothing left"
    LEFT = "left"
    INCOMPLETE = "incomplete"
    """Nothing was found, but not everything could be searched."""


class Proof(Struct):
    """Answer of `erase prove`.

    Attributes:
        env: name of the directory as reports show it.
        started_ms, ended_ms: times of the search in ms since 1970.
        needles: the needles.
        files: the files.
        hits: the first hits, in order of files.
        hit_count: number of all hits.
        unread: what was not read.
        scope: what was not searched.
        gone: names in an earlier manifest that no file has now.
        run: report of the run of the eraser; None without one.
    """

    env: str
    started_ms: int
    ended_ms: int
    needles: Sequence[NeedleFacts]
    files: Sequence[SearchedFile]
    hits: Sequence[Hit]
    hit_count: int
    unread: Sequence[Unread]
    scope: Scope
    gone: Sequence[str] = ()
    run: ReportedRun | None = None

    @property
    def gaps(self) -> list[tuple[str, str]]:
        """Names and reasons of everything in which something may be left unseen."""
        files = [(file.name, problem) for file in self.files for problem in file.problems]
        return files + [(each.name, each.reason) for each in self.unread if each.may_hold]

    @property
    def special(self) -> list[Unread]:
        """Files that were not read and hold no data: pipes, sockets and links to nothing."""
        return [each for each in self.unread if not each.may_hold]

    @property
    def verdict(self) -> SearchVerdict:
        """The answer."""
        if self.hit_count:
            return SearchVerdict.LEFT
        return SearchVerdict.INCOMPLETE if self.gaps else SearchVerdict.NOTHING_LEFT

    @property
    def verdict_text(self) -> str:
        """The answer in a sentence."""
        size = sum(file.read_size for file in self.files)
        searched = f"{counted(len(self.files), 'file')}, {size:,} bytes"
        what = counted(len(self.needles), "needle")
        if self.verdict is SearchVerdict.LEFT:
            files = {hit.file for hit in self.hits}
            return (
                f"LEFT: {counted(self.hit_count, 'hit')} of {what} in "
                f"{counted(len(files), 'file')} ({searched} searched)."
            )
        if self.verdict is SearchVerdict.INCOMPLETE:
            return (
                f"INCOMPLETE: no hit of {what} in what was searched ({searched}), but something "
                f"may be left: {counted(len(self.gaps), 'reason')} below."
            )
        return f"NOTHING LEFT: no hit of {what} in any byte of {searched}."
