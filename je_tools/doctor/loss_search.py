"""Search of the B-trees for places that do not exist, for a diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.errors import RefusedError
from je_tools.missing.losses import LossOptions
from je_tools.output.files.outputs import scratch_directory

if TYPE_CHECKING:
    from je_tools.missing.losses import LossReport
    from je_tools.recovery.snapshot import Snapshot


Search = Callable[["Snapshot", LossOptions], "LossReport"]


def loss_search(
    report_losses: Search, tmp: Path | None, on_refused: Callable[[RefusedError], None]
) -> Callable[[Snapshot, int], LossReport | None]:
    """Return the search that `examination.diagnosed` calls; it returns None if it cannot search.

    Args:
        report_losses: the search of `missing.run`.
        tmp: directory for temporary files; None for the system's.
        on_refused: called with the reason if there is no such directory outside of the environment.
    """

    def search(snapshot: Snapshot, now_ms: int) -> LossReport | None:
        try:
            directory = scratch_directory(tmp, snapshot.environment)
            return report_losses(snapshot, LossOptions(now_ms, directory=directory))
        except RefusedError as error:
            on_refused(error)
            return None

    return search
