"""Opening of environments that a search has found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.audit.discover import UnreadPath
from je_tools.audit.reasons import why_unread
from je_tools.log.opening import open_environment

if TYPE_CHECKING:
    from je_tools.audit.discover import FoundEnvironment
    from je_tools.log.environment import Environment


def open_found(found: FoundEnvironment) -> Environment | UnreadPath:
    """Open an environment; if that fails, return why it cannot be opened."""
    try:
        return open_environment(found.paths, keep_going=True)
    except OSError as error:
        return UnreadPath(found.name, str(error.strerror))
    except Exception as error:
        return UnreadPath(found.name, why_unread(error))
