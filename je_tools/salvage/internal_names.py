"""Names of the engine's own databases, and the database of names."""

from __future__ import annotations

NAMES_ID = 1
"""Id of the database whose keys are the names of all other databases."""

INTERNAL = "_je"
"""Prefix of the names of the engine's internal databases."""
