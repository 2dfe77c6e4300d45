"""Findings of one file of a log that follow from its state, without its entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.verify.consistency import FileSetChecks
from je_tools.verify.damage import FileDamage

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState


def file_findings(environment: Environment, state: FileState) -> list[Finding]:
    """Return the findings of one file that follow from its state, as `Judge` reports them.

    This is for a log that is tailed, whose files are read in pieces. If the file has grown since,
    the link from the next file is not checked. A file that the cleaner has deleted has no findings.
    """
    files = FileSetChecks(environment)
    index = environment.places.get(state.file.path)
    if index is None:
        return []
    next_file = files.next_file(index)
    damage = FileDamage(environment, state.file, is_last=index in environment.ends)
    damaged = [
        *damage.of_bad(state.bad),
        *damage.of_gaps(state.gaps),
        *damage.of_breaks(state.chain_breaks),
    ]
    found = [*files.of_file(index), *sorted(damaged, key=lambda each: each.offset or 0)]
    named_last = next_file.header.last_entry_in_prev_file_offset if next_file else None
    found += damage.of_end(state, named_last)
    if state.size >= environment.files[index].size:
        found += files.of_link(index, state)
    return [each for each in found if each.code != "clean-end"]
