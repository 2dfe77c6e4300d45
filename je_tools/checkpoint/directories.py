"""Check that every log file is in the directory where the engine expects it.

Otherwise the engine does not open the environment.

Source: FileManager.gatherDataDirs, checkNoDataDirs, getFullFileNames, JEFileFilter, JE 18.3.12.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.core.properties import DATA_DIRECTORIES, read_settings
from je_tools.errors import RefusedError
from je_tools.writing.journal_folders import log_folders

if TYPE_CHECKING:
    from je_tools.log.environment import Environment

_SUFFIX = ".jdb"


def check_layout(environment: Environment) -> None:
    """Check that the engine finds all log files, and the data directories that it is set up for.

    Raises:
        RefusedError: it would not open the environment; the message says why.
    """
    home = Path(environment.name)
    for file in environment.files:
        if file.path.suffix != _SUFFIX:
            raise RefusedError(
                f"{file.path}: the engine counts this file and opens {file.path.stem}{_SUFFIX}, "
                "which is not there; give it that name"
            )
    if not home.is_dir():
        return
    folders = log_folders(home)[1:]
    asked = read_settings(home).number(DATA_DIRECTORIES)
    if asked and asked != len(folders):
        raise RefusedError(
            f"{home}: je.properties sets {DATA_DIRECTORIES} to {asked}, and data directories there "
            f"are {len(folders)}: the engine would not open it; set it right, or restore what is "
            "missing"
        )
    at_home = next((file for file in environment.files if file.path.parent == home), None)
    if folders and at_home is not None:
        raise RefusedError(
            f"{at_home.path}: lies beside {folders[0].name}; with data directories the engine "
            "looks for log files there only, and without them it wants none; remove those that "
            "are not of this environment"
        )
