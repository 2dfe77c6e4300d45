"""One scan of a log: its files and the findings of `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.doctor.facts import LogFacts, Releases
from je_tools.files.listing import Listing, releases_text
from je_tools.formats.je.types import RELEASES
from je_tools.verify.judge import of_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from je_tools.files.listing import FileRow
    from je_tools.findings import Finding
    from je_tools.formats.je.log.fingerprints import Fingerprints
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.verify.odd_flags import Period


def scan_log(
    environment: Environment, scanner: Scanner, prints: Fingerprints | None = None
) -> LogFacts:
    """Read a log once; return its files, and the findings of `verify` in their order.

    Args:
        environment: the log.
        scanner: options of the scan, which must check checksums.
        prints: filled with fingerprints of the records, for a check of the B-trees.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    listing = Listing(environment, printing=prints.printing if prints is not None else None)
    found: list[Finding] = []
    periods: list[Period] = []
    size = 0
    for part in replace(scanner, asked=listing.asked).scan(environment, listing.inspector):
        found += listing.merge(part, part.results)
        for seen in part.results:
            periods += seen.judged.periods
            if prints is not None and seen.judged.prints is not None:
                prints.add(part.file.file_no, seen.judged.prints)
        size = part.end.size if part.end else size
    found += listing.finish()
    for each in of_directory(environment, size):
        listing.totals.count(each)
        found.append(each)
    return facts_of(listing, found, periods)


def facts_of(listing: Listing, found: Sequence[Finding], periods: Sequence[Period]) -> LogFacts:
    """Return the facts of a log that has been read.

    Args:
        listing: its files.
        found: findings of `verify`, in its order.
        periods: its rollbacks.
    """
    rows = tuple(listing.rows)
    return LogFacts(rows, tuple(found), listing.totals, _releases_of(rows), tuple(periods))


def _releases_of(rows: Sequence[FileRow]) -> Releases:
    """Return the releases that open a log with these files."""
    versions = sorted({row.version for row in rows if row.version is not None})
    if not versions:
        return Releases((), None, None, ())
    highest = versions[-1]
    refusals = dict.fromkeys(row.not_opened_by for row in rows)
    return Releases(
        tuple(versions),
        releases_text(highest),
        RELEASES[highest],
        tuple(each for each in refusals if each is not None),
    )
