"""Failures of an audit: missing space, and a Spark that has ended."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from je_tools.audit.output_folder import LOG_NAME
from je_tools.errors import JeToolsError, RefusedError, StoppedError


@contextmanager
def reporting_failures(output: Path, log: Path) -> Iterator[None]:
    """Report missing space and failures of Spark; errors of executors are known only by text.

    Args:
        output: folder that the audit was to become.
        log: log of Spark; if Spark has failed it is moved beside `output`.

    Raises:
        RefusedError: there is no space for the output, or for Spark's temporary files.
        StoppedError: Spark gave up, or ended.
    """
    try:
        yield
    except JeToolsError:
        raise
    except Exception as error:
        reasons = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT)]
        found = next((reason for reason in reasons if reason in str(error)), None)
        if found is not None:
            places = f"{output}, or where Spark keeps its own files ({tempfile.gettempdir()})"
            raise RefusedError(f"{places}: {found}") from error
        if "pyspark" not in sys.modules:
            raise
        from je_tools.audit.session import is_of_spark, why_failed

        if not is_of_spark(error):
            raise
        log_path = log_beside(output)
        with suppress(OSError):
            log.replace(log_path)
        raise StoppedError(
            f"Spark ended before the audit: {why_failed(error)}; {log_path} has its messages"
        ) from error


def log_beside(output: Path) -> Path:
    """Return the path where the log of a failed Spark is kept."""
    if output.name in ("", ".."):
        output = Path(os.path.realpath(output))
    return output.with_name(f"{output.name}.{LOG_NAME}")
