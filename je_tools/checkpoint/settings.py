"""Settings of a checkpoint, from the options or from je.properties."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.checkpoint.contents import CheckpointSettings
from je_tools.core.properties import BIN_DELTA, FILE_MAX, NUMBERS, read_settings
from je_tools.errors import RefusedError

if TYPE_CHECKING:
    from je_tools.checkpoint.options import CheckpointOptions
    from je_tools.recovery.snapshot import Snapshot


def choose_settings(snapshot: Snapshot, options: CheckpointOptions) -> CheckpointSettings:
    """Return the settings from the options or from je.properties."""
    stated = read_settings(Path(snapshot.environment.name))
    file_max = choose_file_max(snapshot, options.file_max)
    return CheckpointSettings(
        file_max,
        time.time_ns() // 1_000_000,
        stated.number(BIN_DELTA),
        options.before_erasure,
        options.first_vlsn,
        options.rewritten,
        options.begins_file,
    )


def choose_file_max(snapshot: Snapshot, wanted: int | None) -> int:
    """Return the maximum size of a file, in bytes: the wanted one, or that of je.properties.

    Without either, return the size of the largest file, but at least the engine's default.

    Raises:
        RefusedError: je.properties has a value that the engine rejects.
    """
    if wanted is not None:
        return wanted
    stated = read_settings(Path(snapshot.environment.name))
    refusal = stated.refusal(FILE_MAX)
    if refusal is not None:
        raise RefusedError(
            f"{snapshot.environment.name}: {refusal}, so the engine does not open the "
            "environment. Correct the setting, or give the size of new files with --file-max."
        )
    if stated.is_set(FILE_MAX):
        return stated.number(FILE_MAX)
    largest = max(file.size for file in snapshot.end.files)
    return min(max(NUMBERS[FILE_MAX].default, largest), NUMBERS[FILE_MAX].most or largest)
