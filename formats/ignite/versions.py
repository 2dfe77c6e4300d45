"""Versions of entries: topology version, node with its data center, and order.

Source: GridCacheVersion, Ignite 2.18.0.
"""

from __future__ import annotations

from typing import Any

_ORDER_BITS = 27
_UNSIGNED = 0xFFFF_FFFF


def unsigned_node(node: Any) -> Any:
    """Return the node of a version as an unsigned number; `node` is an int or an int64 array."""
    return node & _UNSIGNED


def node_order(node: Any) -> Any:
    """Return the order of the node in its topology."""
    return node & (1 << _ORDER_BITS) - 1


def data_center(node: Any) -> Any:
    """Return the number of the node's data center, 0 for a cluster without several."""
    return unsigned_node(node) >> _ORDER_BITS


def node_of(order: int, center: int) -> int:
    """Return the node of a version, unsigned."""
    found: int = node_order(order) | (center & 31) << _ORDER_BITS
    return found


def version_text(topology: int, node: int, order: int) -> str:
    """Return a version as `topology:node:order`, with `:center` if the data center is not 0."""
    center = f":{data_center(node)}" if data_center(node) else ""
    return f"{topology}:{node_order(node)}:{order}{center}"
