"""Check that every log file is in the directory where the engine looks for it.

If one is not, the engine refuses to open the environment.

Source: FileManager.gatherDataDirs, checkNoDataDirs, getFullFileNames, JEFileFilter, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.core.properties import DATA_DIRECTORIES, read_settings
from je_tools.errors import RefusedError
from je_tools.writing.journal_folders import log_folders

if TYPE_CHECKING:
    from je_tools.log.environment import Environment

_SUFFIX = ".jdb"


def check_layout(environment: Environment) -> None:
    """Check that the engine finds all log files, and the number of data directories that is set.

    Raises:
        RefusedError: it would not open the environment; the message says why.
    """
    home = environment.home
    for file in environment.files:
        if file.path.suffix != _SUFFIX:
            raise RefusedError(
                f"{file.path}: the engine looks for {file.path.stem}{_SUFFIX} instead, which does "
                "not exist: rename the file"
            )
    if not home.is_dir():
        return
    folders = log_folders(home)[1:]
    asked = read_settings(home).number(DATA_DIRECTORIES)
    if asked and asked != len(folders):
        raise RefusedError(
            f"{home}: je.properties sets {DATA_DIRECTORIES} to {asked}, but there are "
            f"{len(folders)} data directories: the engine would refuse to open the "
            "environment. Correct the setting, or restore the missing directories"
        )
    at_home = next((file for file in environment.files if file.path.parent == home), None)
    if folders and at_home is not None:
        raise RefusedError(
            f"{at_home.path}: the file is in the home directory, beside {folders[0].name}. With "
            "data directories, the engine looks for log files only there. Without, it "
            "accepts no such directories. Move away the files or directories that do not "
            "belong to this environment"
        )
