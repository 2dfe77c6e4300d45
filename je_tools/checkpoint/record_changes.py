"""Changes to the records of internal databases, by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from je_tools.formats.je.write.transactions import WrittenEntry

Fields = Mapping[str, Any]

RecordChanges = dict[bytes, WrittenEntry | None]
"""Changes to the slots of an internal database, by key; None for a slot that is removed."""
