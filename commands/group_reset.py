"""`je-tools group reset`: a new group with one node."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._appending import AppendOptions, append_options, run_operation
from je_tools.commands._options import CONTEXT
from je_tools.commands._snapshot import member_snapshot, node_home, open_home
from je_tools.core.escaping import printable, quoted
from je_tools.errors import UsageError


class Options(AppendOptions):
    """Options of the command line."""

    node_name: str | None
    node_host_port: str | None
    group_name: str | None


_PORT_MAX = 65535

_NEXT_STEP = (
    "start this node first. Give the other nodes empty directories before they start: each copies "
    "the log of this node"
)


@click.command("reset", context_settings=CONTEXT)
@append_options
@click.option("--node-name", metavar="NAME", help="Name of the node that remains; required.")
@click.option(
    "--node-host-port",
    metavar="HOST:PORT",
    help="Address of the node. The default is its address in the old group.",
)
@click.option(
    "--group-name", metavar="NAME", help="Name of the new group. The default is the old name."
)
def command(**options: Unpack[Options]) -> int:
    """Replace the replication group with one of only this node, as DbResetRepGroup does.

    Use this if the other nodes are lost for good, or to start a copy of a node elsewhere. All
    records stay. The node becomes the master when it starts, and VLSNs and node ids continue from
    where they were. The group gets a new id, so the old nodes cannot join it any more: give them
    empty directories, and they copy the log from this node (network restore).

    Without --apply, the command shows the plan and changes nothing. With it, the command holds the
    engine's lock while it writes, and `je-tools undo` reverts the reset.

    \b
    Examples:
      je-tools group reset meta/bdb --node-name node1
      je-tools group reset meta/bdb --node-name node1 --apply
      je-tools group reset meta/bdb --node-name node1 --node-host-port mars:5001 --apply
      je-tools group reset meta/bdb --node-name node1 --apply --output /backup/bdb
    """
    from je_tools.operations.group_reset import GroupReset, NodeIdentity

    if options["node_name"] is None:
        raise UsageError(f"--node-name is missing: add it{_known_nodes(options)}")
    names = {"--node-name": options["node_name"], "--group-name": options["group_name"]}
    for option, name in names.items():
        _check_name(option, name)
    host, port = _address(options["node_host_port"])
    identity = NodeIdentity(options["node_name"], host, port, options["group_name"])
    given = {**names, "--node-host-port": options["node_host_port"]}
    words = "".join(f" {option} {quoted(text)}" for option, text in given.items() if text)
    operation = GroupReset(identity)
    return run_operation(options, "group reset", words, operation, next_step=_NEXT_STEP)


def _known_nodes(options: Options) -> str:
    """Return the names of the nodes in the group database as the end of a sentence.

    Raises:
        InputError: the environment is not a node of a replication group.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    from je_tools.group.members import read_group

    environment = open_home(node_home(options["path"]), keep_going=False)
    with member_snapshot(environment, options) as snapshot:
        names = [printable(node.name or "") for node in read_group(snapshot).nodes]
    known = ", ".join(names) or "none"
    return f". The group has these nodes: {known}; another name needs --node-host-port too"


def _check_name(option: str, name: str | None) -> None:
    """Check that the engine accepts a name of a group or a node.

    Raises:
        UsageError: it does not.
    """
    if name is None:
        return
    if not name or any(not (each.isalnum() or each in "-_.") for each in name):
        raise UsageError(
            f"{option} {name}: expected letters, digits, hyphens, underscores and periods: the "
            "engine accepts no other names"
        )


def _address(text: str | None) -> tuple[str | None, int | None]:
    """Return host and port of an address; None for none.

    Raises:
        UsageError: it is not HOST:PORT.
    """
    if text is None:
        return None, None
    host, _, port = text.partition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
        raise UsageError(f"--node-host-port {text}: expected HOST:PORT, such as mars:5001")
    return host, int(port)
