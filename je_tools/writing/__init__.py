"""Changes of a log: under the engine's lock, with an undo journal, in a crash-safe order.

A `session.Session` takes an environment and its lock, and cuts, moves, appends and flips bytes.
`undo.list_undos` returns the operations of an environment, each with the steps that revert it.
"""
