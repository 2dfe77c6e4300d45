"""Repairs of Ignite's stores: edits of files, each with a reason, and the session that writes them.

Planners read a node and return edits, or say why they refuse. `StoreSession` applies edits by
the protocol of all commands that write: the node's lock, an undo journal, and a check afterwards.
"""
