"""`je-tools ignite recover`: the next start of a node, and repairs that it accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._ignite import (
    StoreOptions,
    node_option,
    open_output_outside,
    output_option,
    store_argument,
    thread_count,
    write_store_report,
)
from je_tools.commands._options import (
    data_option,
    exit_zero_option,
    format_option,
    threads_count_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._terminal import say
from je_tools.core.escaping import clean_text, counted
from je_tools.core.masking import DataMode, Masking
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import BinaryIO

    from je_tools.ignite.recovery.plan import NodePlan
    from je_tools.ignite.recovery.repair import RepairPlan
    from je_tools.ignite.store import Store
    from je_tools.output.views.sections import Section


class Options(StoreOptions):
    """Options of the command line."""

    everything: bool
    pages: bool
    cut_at: str | None
    apply_: bool
    data_mode: str


@click.command("recover")
@store_argument
@node_option
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also show changes of pages by type, files, and each edit.",
)
@click.option(
    "--no-pages",
    "pages",
    flag_value=False,
    default=True,
    help="Do not read the files of pages: damaged pages are not found. Not with --apply.",
)
@click.option(
    "--cut-at",
    metavar="POINTER",
    help="Cut the log before the record at SEGMENT:OFFSET; later updates are lost.",
)
@click.option(
    "--apply",
    "apply_",
    is_flag=True,
    help="Write the edits. Without this option, the command only shows the plan.",
)
@format_option(*REPORT)
@output_option
@data_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Show what the next start of a node would do to its pages and rows, and repair the store.

    The command computes recovery in memory: the pages that it writes if the newest checkpoint did
    not end, the rows that it replays from the log, transactions that it leaves out, and the place
    where the log ends for it. It predicts whether the node starts, and what it loses without a
    message. The exit code is 3 if there are errors or warnings.

    Edits are writes that bring the store to a state from which the node starts: damaged bytes of
    the log are taken from another copy or bridged, an unfinished checkpoint is finished, and
    damaged pages and lost files are rebuilt from the log. With --apply, the command takes the
    node's lock, keeps what it overwrites in an undo journal, and writes the edits. Then it shows
    the next start of the repaired store. `ignite undo` reverts the edits.

    \b
    Examples:
      je-tools ignite recover /var/lib/ignite
      je-tools ignite recover work --node node1 --all --format json
      je-tools ignite recover work --apply
    """
    from je_tools.ignite.recovery.plan import plan_recovery
    from je_tools.ignite.store import open_store

    if options["apply_"] and not options["pages"]:
        raise UsageError("--apply reads the pages: omit --no-pages")
    store = open_store(options["paths"], options["nodes"])
    threads = thread_count(options["threads"])
    with open_output_outside(options["output"], store) as out:
        repairs = _applied(options, store, threads) if options["apply_"] else []
        # After edits, the next start is that of the store as it is then.
        edited = open_store(options["paths"], options["nodes"]) if options["apply_"] else store
        with progress_bar(edited.size, "ignite recover") as progress:
            plans = plan_recovery(edited, threads, pages=options["pages"], progress=progress)
        repairs = repairs or _planned(options, plans, threads)
        _write(options, store, plans, repairs, out)
    return _exit_code(options, store, plans)


def _cut_at(options: Options) -> tuple[int, int] | None:
    from je_tools.ignite.wal.record_filters import parse_pointer

    text = options["cut_at"]
    return None if text is None else parse_pointer(text)


def _planned(options: Options, plans: Sequence[NodePlan], threads: int) -> list[RepairPlan]:
    from je_tools.ignite.recovery.repair import plan_repairs

    place = _cut_at(options)
    if not options["pages"] and place is None:
        return []
    return [plan_repairs(plan, threads, place) for plan in plans]


def _applied(options: Options, store: Store, threads: int) -> list[RepairPlan]:
    """Write the repairs of each node, and return them."""
    from je_tools.ignite.recovery.repair import apply_repairs

    place = _cut_at(options)
    repairs = []
    for node in store.nodes:
        name = f"je-tools: {store.name}: {node.name}"
        done = apply_repairs(store, node, threads, place)
        for repair, number in done:
            if number is not None:
                edits = counted(len(repair.edits), "edit")
                say(f"{name}: {edits} written; the undo journal is {number}")
            repairs.append(repair)
        if all(number is None for _, number in done):
            say(f"{name}: nothing to write")
    return repairs


def _exit_code(options: Options, store: Store, plans: Sequence[NodePlan]) -> int:
    from je_tools.findings import Severity

    for plan in plans:
        say(f"je-tools: {store.name}: {plan.node.name or 'the node'} {plan.outcome.value}")
    wrong = any(e.severity is not Severity.NOTE for plan in plans for e in plan.findings)
    return EXIT_DAMAGE if wrong and not options["exit_zero"] else EXIT_OK


def _write(
    options: Options,
    store: Store,
    plans: Sequence[NodePlan],
    repairs: Sequence[RepairPlan],
    out: BinaryIO,
) -> None:
    sections = _sections(options, store, plans, repairs)
    counts = {"nodes": len(plans), "findings_count": sum(len(plan.findings) for plan in plans)}
    write_store_report(options["format_"], store, sections, out, options["output"], facts=counts)


def _sections(
    options: Options, store: Store, plans: Sequence[NodePlan], repairs: Sequence[RepairPlan]
) -> list[Section]:
    from je_tools.ignite.recovery.lost_rows import lost_rows
    from je_tools.ignite.recovery.repair import OPTIONAL, PAGES_LATER
    from je_tools.ignite.recovery.steps import recover_steps
    from je_tools.output.views import ignite_recover_tables as tables
    from je_tools.output.views.store_report import step_section

    everything = options["everything"] or options["format_"] != "table"
    edits = [edit for repair in repairs for edit in repair.edits]
    masking = Masking(DataMode(options["data_mode"]))
    lost = [row for repair in repairs for row in lost_rows(repair.node, repair.lost, masking)]
    # Problems that repairs of the log left are still there after repairs of the pages.
    left = dict.fromkeys(clean_text(text) for repair in repairs for text in repair.left)
    planned = [] if options["apply_"] else [each for each in repairs if each.edits]
    is_optional = bool(planned) and all(each.is_optional for each in planned)
    later = [PAGES_LATER] if any(each.is_of_log for each in planned) else []
    later += [OPTIONAL] if is_optional else []
    steps = recover_steps(
        store,
        options["nodes"],
        options["cut_at"],
        is_applied=options["apply_"],
        is_optional=is_optional,
    )
    return [
        *tables.recovery_sections(plans, everything=everything),
        tables.edit_section(edits, store.roots[0], everything=everything),
        tables.text_section("later", "About these edits", later),
        tables.lost_section(lost),
        tables.text_section("left", "What cannot be repaired", left),
        tables.text_section("not_checked", "Not checked", _not_checked(plans)),
        step_section(steps if edits else []),
    ]


def _not_checked(plans: Sequence[NodePlan]) -> Iterable[str]:
    """Return what was not checked, each text once; one that is not of all nodes names its own."""
    texts = [dict.fromkeys((*plan.not_checked, *plan.left_to_others)) for plan in plans]
    return dict.fromkeys(
        text if all(text in some for some in texts) else f"{clean_text(plan.node.name)}: {text}"
        for plan, own in zip(plans, texts, strict=True)
        for text in own
    )
