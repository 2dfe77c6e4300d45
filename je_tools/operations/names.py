"""Names in undo journals of the operations that an erasure does besides erasing."""

from __future__ import annotations

DELETION = "erase deletion"
"""The deletion of live records."""

CHECKPOINT = "erase checkpoint"
"""The checkpoint before the erasure."""

PROGRESS = "erase progress"
"""The update of the eraser's record, and the checkpoint that follows it."""
