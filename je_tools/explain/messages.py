"""The message table: every text of an engine or an application that `explain` recognises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.explain.group_messages import GROUP_MESSAGES
from je_tools.explain.ignite_messages import IGNITE_MESSAGES
from je_tools.explain.journal_messages import JOURNAL_MESSAGES
from je_tools.explain.log_messages import LOG_MESSAGES

if TYPE_CHECKING:
    from je_tools.explain.message_case import Case

MESSAGES: tuple[Case, ...] = (
    *GROUP_MESSAGES,
    *LOG_MESSAGES,
    *JOURNAL_MESSAGES,
    *IGNITE_MESSAGES,
)
"""All cases. Of several in one log entry, the first in this order is the cause."""
