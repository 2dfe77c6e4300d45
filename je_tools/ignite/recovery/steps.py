"""Commands to run after `ignite recover`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import quoted
from je_tools.core.unused_names import unused_beside

if TYPE_CHECKING:
    from je_tools.ignite.store import Store


class StoreStep(Struct, frozen=True):
    """A command to run next, and what it does."""

    command: str
    why: str


def recover_steps(
    store: Store,
    nodes: Sequence[str],
    cut_at: str | None,
    *,
    is_applied: bool,
    is_optional: bool = False,
) -> list[StoreStep]:
    """Return the commands to run after edits were shown or written, the safest first.

    Args:
        store: the store.
        nodes: names of the nodes that were chosen; empty for all.
        cut_at: where the log is cut, as given by the user; None for nowhere.
        is_applied: True if the edits were written.
        is_optional: True if the nodes start without them.
    """
    name = quoted(store.name)
    if is_applied:
        # A command that reverts changes is for one node.
        written = [f" --node {quoted(each.name)}" for each in store.nodes]
        some = written if len(store.nodes) > 1 or nodes else [""]
        why = "reverts the newest edits, as long as no node has started"
        return [StoreStep(f"je-tools ignite undo {name}{each} --apply", why) for each in some]
    chosen = "".join(f" --node {quoted(each)}" for each in nodes)
    cut = "" if cut_at is None else f" --cut-at {quoted(cut_at)}"
    apply = f"je-tools ignite recover {name}{chosen}{cut} --apply"
    copy = f"cp -a {name} {quoted(unused_beside(Path(store.name), 'copy'))}"
    what = "optional edits" if is_optional else "edits"
    return [
        StoreStep(copy, "keeps the store as it is"),
        StoreStep(apply, f"writes the {what}; `ignite undo` reverts them"),
    ]
