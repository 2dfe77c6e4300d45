"""Internal databases whose records a checkpoint changes."""

from __future__ import annotations

from je_tools.formats.je.internal.names import (
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    RESERVED_FILES_DB,
    UTILIZATION_DB,
    VLSN_MAP_DB,
)

CHANGED_DATABASES = (
    UTILIZATION_DB,
    EXPIRATION_DB,
    RESERVED_FILES_DB,
    EXTINCT_SCANS_DB,
    VLSN_MAP_DB,
)
"""Databases whose records a checkpoint changes. They are written after all others."""
