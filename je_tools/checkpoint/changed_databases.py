"""Internal databases that a checkpoint writes, and the size of their nodes."""

from __future__ import annotations

from je_tools.formats.je.internal.names import (
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    RESERVED_FILES_DB,
    UTILIZATION_DB,
    VLSN_MAP_DB,
)

MAX_ENTRIES = 128
"""Slots of a node, and of a node of old duplicates, if nothing else is set."""

CHANGED_DATABASES = (
    UTILIZATION_DB,
    EXPIRATION_DB,
    RESERVED_FILES_DB,
    EXTINCT_SCANS_DB,
    VLSN_MAP_DB,
)
"""Databases whose records a checkpoint changes; they are written after all others."""
