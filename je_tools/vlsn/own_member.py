"""The member of a group to which a log belongs: the log does not name it, but files beside it may.

Source: ReplicationConfig.NODE_NAME and NODE_TYPE, NodeType.isElectable, JE 18.3.12 and 25.3.17;
BDBEnvironment (observers are SECONDARY nodes), StarRocks 3.x.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.properties import read_settings
from je_tools.formats.je.internal.replication import NODE_TYPES
from je_tools.journal.front_end import find_front_end

if TYPE_CHECKING:
    from je_tools.vlsn.group_names import GroupNames

NODE_NAME = "je.rep.nodeName"
NODE_TYPE = "je.rep.nodeType"

ELECTABLE = "electable"
_ROLES = {"OBSERVER": "secondary", "FOLLOWER": ELECTABLE}


class OwnMember(Struct, frozen=True):
    """A member of a group.

    Attributes:
        name: its name; None if no file has it.
        node_type: one of `NODE_TYPES`; None if unknown.
    """

    name: str | None
    node_type: str | None


def find_own_member(home: Path, group: GroupNames) -> OwnMember:
    """Return the member that a log belongs to.

    Its name and type are taken from `je.properties`, or else from the file ROLE of a front end. The
    type may also be in the group database, which has those of members that are not secondary nodes.

    Args:
        home: directory of the log.
        group: what the group database says.
    """
    texts = read_settings(home).texts
    front_end = find_front_end(home)
    name = texts.get(NODE_NAME) or front_end.node_name
    own = texts.get(NODE_TYPE, "").strip().lower()
    if own in NODE_TYPES:
        return OwnMember(name, own)
    known = _ROLES.get(front_end.role or "") or group.types.get(name or "")
    return OwnMember(name, known)
