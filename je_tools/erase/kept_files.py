"""Files that an erasure leaves as they are, in words, with what lets them go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.core.escaping import counted, quoted
from je_tools.erase.reasons import NUMBER_OF, KeepReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from je_tools.erase.plan import ErasurePlan

_LISTED_MAX = 3


def kept_texts(plan: ErasurePlan) -> Iterator[str]:
    """Yield a sentence for each reason to leave whole files as they are."""
    for reason, advice in (
        (KeepReason.HARD_LINK, "remove the other names, as of a backup made of hard links"),
        (KeepReason.SYMBOLIC_LINK, "put the files themselves there"),
        (KeepReason.PROTECTED, f"`je-tools erase abort {_home(plan)} --release` lets them go"),
        (KeepReason.OLD_VERSION, "je-tools erases no files of so old a log version"),
    ):
        names = [each.file.path.name for each in plan.files if each.kept is reason]
        if names:
            yield f"{_listed(names)} as before ({reason.value}): {advice}"
    young = sum(each.kept is KeepReason.YOUNG for each in plan.files)
    if young:
        yield f"{counted(young, 'file')} younger than the period, or not of this cycle, stay"
    last_count = int(plan.totals.counts[NUMBER_OF[KeepReason.LAST_FILE]])
    if last_count:
        yield (
            f"{last_count:,} entries of the last file stay as they are; "
            "--checkpoint-first begins another file, so that this one can be erased"
        )


def _home(plan: ErasurePlan) -> str:
    return quoted(str(Path(plan.files[0].file.path).parent))


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED_MAX])
    more = len(names) - _LISTED_MAX
    shown += f" and {more:,} more" if more > 0 else ""
    return f"{shown} {'stays' if len(names) == 1 else 'stay'}"
