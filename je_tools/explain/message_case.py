"""A case of the message table: a text that an engine prints, its meaning, and the next steps."""

from __future__ import annotations

from msgspec import Struct


class NextStep(Struct, frozen=True):
    """A command to run next.

    Attributes:
        command: a command line without `je-tools`, with the placeholders ENV, LSN, VLSN,
            POINTER and PAGE for what the text names, and DIRECTORY for a new output.
        why: what it shows.
    """

    command: str
    why: str


class Case(Struct, frozen=True, kw_only=True):
    """A text that an engine or an application prints, its meaning, and the next steps.

    Phrases are compared word by word; any run of whitespace counts as one space, so a text that
    was wrapped is recognised too.

    Attributes:
        name: name, the same in every output.
        title: the case in a few words.
        phrases: each of these alone announces the case.
        also: phrases that must all be in the same log entry.
        replaces: names of more general cases that this one explains in the same log entry.
        meaning: what happened.
        misread: what the text does not mean, although it is often read so.
        steps: commands to run next, the most useful first.
        sources: where the text comes from: class, method and version, or a public report.
        sample: a short text as it is printed, with every phrase that the case needs.
    """

    name: str
    title: str
    phrases: tuple[str, ...]
    also: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    meaning: str
    misread: str
    steps: tuple[NextStep, ...]
    sources: tuple[str, ...]
    sample: str


VERIFY = NextStep(
    "verify ENV", "finds every damaged byte range, and distinguishes a torn end from damage"
)
TREE = NextStep("verify ENV --tree", "checks every node and slot, and names the keys")
FILES = NextStep(
    "files ENV", "lists the log files, their versions, and which JE releases open them"
)
JOURNAL = NextStep(
    "journal ENV", "lists the journals, their ids and holes, and compares the node with its group"
)
RECOVER = NextStep(
    "recover ENV", "shows what the engine would do when it opens the log, and writes nothing"
)
SALVAGE = NextStep(
    "salvage ENV --output DIRECTORY",
    "writes the records that can still be read, and a report of what cannot",
)
MISSING = NextStep("missing ENV", "lists the databases and keys that the missing files held")
SPACE = NextStep("space ENV", "shows why each file is still there, and what the disk limits say")
LOCK = NextStep("lock ENV", "shows which process has the environment open")
COMPARE_NODES = NextStep(
    "vlsn compare ENV other-node",
    "compares the ends of the replication streams of nodes: which node should lead, and what each "
    "would lose",
)
CHECK_INDEX = NextStep(
    "vlsn check ENV",
    "checks the VLSN index against the log, and finds VLSNs that are missing or were used twice; "
    "run it on every node",
)
SHOW_NODE = NextStep(
    "vlsn show ENV", "shows the last VLSN and Commit of the node, and which node was master when"
)
SHOW_GROUP = NextStep(
    "group show ENV", "shows the group and its members, as the log of this node has them"
)
RESET_GROUP = NextStep(
    "group reset ENV",
    "makes this node a group of its own if the others are gone for good; --node-name names it",
)
REBUILD_INDEX = NextStep(
    "vlsn rebuild ENV",
    "compares the VLSN index with the log, shows what the engine would do with it, and builds it "
    "anew with --apply",
)
ENTRY = NextStep(
    "explain LSN --env ENV", "shows the entry there byte by byte, or what is there instead"
)
