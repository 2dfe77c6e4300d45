"""Output folder of an audit: it appears when it is complete, and replaces only another audit."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.audit import tables as t
from je_tools.audit.report import METRICS_NAME, PAGE_NAME, SUMMARY_NAME
from je_tools.core.escaping import clean_text, printable
from je_tools.errors import RefusedError

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet

MARK, BEGIN = SUMMARY_NAME, b'{"format": '
"""File in the folder of a finished audit, and the bytes with which it begins."""

LOG_NAME = "spark.log"
_FILES = {SUMMARY_NAME, PAGE_NAME, METRICS_NAME, LOG_NAME}
_FOLDERS = {table.name for table in t.TABLES}
_PART = re.compile(r"part-[0-9]{5,}\.parquet")


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """Make a new folder that replaces `output` at the end; after a failure nothing of it is left.

    Raises:
        RefusedError: `output` is something that no audit has made, or cannot be made.
    """
    _refuse_what_is_no_audit(output)
    # A link stays a link: its target is replaced.
    output = Path(os.path.realpath(output))
    token = secrets.token_hex(4)
    try:
        new = output.absolute().with_name(f".{output.name}.{token}.new")
        new.mkdir(parents=True)
        held = os.open(new, os.O_RDONLY)
    except OSError as error:
        raise RefusedError(f"{output}: cannot create the folder: {error.strerror}") from error
    try:
        _lock(held)
        _remove_what_was_killed(output, "new")
        yield new
        # Another audit may have finished meanwhile.
        _refuse_what_is_no_audit(output)
        old = new.with_suffix(".old")
        try:
            with suppress(FileNotFoundError):
                output.rename(old)
            new.rename(output)
        except BaseException:
            with suppress(OSError):
                old.rename(output)
            raise
        shutil.rmtree(old, ignore_errors=True)
        # Only now that there is a new one: that of a killed audit may have been the only one.
        _remove_what_was_killed(output, "old")
    finally:
        os.close(held)
        shutil.rmtree(new, ignore_errors=True)


def _remove_what_was_killed(output: Path, kind: str) -> None:
    """Remove folders that audits into this one could not clean up, as after a power cut.

    Args:
        output: the folder.
        kind: `new`, an audit that was not finished, or `old`, an audit that was replaced.
    """
    name = re.compile(rf"\.{re.escape(output.name)}\.[0-9a-f]{{8}}\.{kind}")
    for left in output.parent.iterdir():
        if name.fullmatch(left.name):
            with suppress(OSError):
                held = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    if _lock(held) and (kind == "new" or _foreign_in(left) is None):
                        shutil.rmtree(left, ignore_errors=True)
                finally:
                    os.close(held)


def _lock(held: int) -> bool:
    """Lock an open folder for this process; return False if another process has the lock."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _refuse_what_is_no_audit(output: Path) -> None:
    """Refuse an existing output unless it is empty or an audit, which can be made again."""
    if not os.path.lexists(output) or (output.is_dir() and not any(output.iterdir())):
        return
    try:
        with (output / MARK).open("rb") as file:
            is_audit = file.read(len(BEGIN)) == BEGIN
    except OSError:
        is_audit = False
    tables = [output / table.name for table in (t.ENVIRONMENTS, t.FINDINGS)]
    if not is_audit or not all(table.is_dir() for table in tables):
        raise RefusedError(
            f"{output}: the folder exists, but is not from an audit; name another folder"
        )
    try:
        foreign = _foreign_in(output)
    except FileNotFoundError:
        # Another audit replaces it at this moment.
        return
    except OSError as error:
        raise RefusedError(f"{output}: cannot list the folder: {error.strerror}") from error
    if foreign is not None:
        raise RefusedError(
            f"{output}: the folder holds {foreign}, which is not from an audit and would be "
            "removed with the earlier audit; move it, or name another folder"
        )


def _foreign_in(folder: Path) -> str | None:
    """Return the first name below an audit's folder that no audit writes, or None."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink() and path.name in _FOLDERS:
            parts = sorted(path.iterdir())
            foreign = (
                part for part in parts if not (_PART.fullmatch(part.name) and _is_file(part))
            )
            found = next(foreign, None)
        else:
            found = None if path.name in _FILES and _is_file(path) else path
        if found is not None:
            return printable(clean_text(str(found.relative_to(folder))))
    return None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def refuse_what_holds_logs(output: Path, fleet: Fleet) -> None:
    """Refuse an output whose replacement would remove logs."""
    place = os.path.realpath(output)
    for environment in fleet.environments:
        first = environment.files[0].path
        if any(
            Path(each).is_relative_to(place)
            for each in map(os.path.realpath, (first, first.parent))
        ):
            raise RefusedError(
                f"{output}: the folder holds logs that the audit reads; name another folder"
            )
