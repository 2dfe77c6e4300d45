"""Texts on the files that an erasure leaves as they are: why they stay, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.core.escaping import counted, quoted
from je_tools.erase.reasons import NUMBER_OF, KeepReason
from je_tools.log.file_names import home_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from je_tools.erase.plan import ErasurePlan

_LISTED_MAX = 3


def advice_on(reason: KeepReason, home: Path) -> str | None:
    """Return what to do so that a file can be erased, as a clause; None if nothing can be done.

    Args:
        reason: reason why the file stays as it is.
        home: home of the environment.
    """
    if reason is KeepReason.HARD_LINK:
        return "remove its other name, or put a copy of the file in its place"
    if reason is KeepReason.SYMBOLIC_LINK:
        return "put the file itself there"
    if reason is KeepReason.PROTECTED:
        return f"end the protection with `je-tools erase abort {quoted(str(home))} --release`"
    return None


def kept_texts(plan: ErasurePlan) -> Iterator[str]:
    """Yield a sentence for each reason to leave whole files as they are, without a full stop."""
    home = home_of(plan.files[0].file.path)
    for reason in KeepReason:
        advice = advice_on(reason, home)
        names = [each.file.path.name for each in plan.files if each.kept is reason]
        if names and advice is not None:
            yield f"{_listed(names)}: {reason.text}; {advice}"
    young = sum(each.kept is KeepReason.YOUNG for each in plan.files)
    if young:
        yield f"{counted(young, 'file')} younger than the period, or not of this cycle, stay"
    last_count = int(plan.totals.counts[NUMBER_OF[KeepReason.LAST_FILE]])
    if last_count:
        yield (
            f"{last_count:,} entries of the last file stay as they are; "
            "--checkpoint-first begins another file, so that this one can be erased"
        )


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED_MAX])
    more = len(names) - _LISTED_MAX
    shown += f" and {more:,} more" if more > 0 else ""
    return f"{shown} {'stays as it is' if len(names) == 1 else 'stay as they are'}"
