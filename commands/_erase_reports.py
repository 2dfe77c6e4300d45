"""Reports of erasures: the plan, and what both plan and result say on standard error."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from je_tools.commands._findings import add_findings, check_outputs, report_findings
from je_tools.commands._options import check_has_output, chosen_file_mode
from je_tools.commands._snapshot import member_snapshot, open_home
from je_tools.commands._terminal import say, terminal_width
from je_tools.core.escaping import quoted
from je_tools.errors import EXIT_DAMAGE

if TYPE_CHECKING:
    from je_tools.commands._erase_options import EraseOptions
    from je_tools.erase.options import ErasureOptions
    from je_tools.erase.plan import ErasurePlan
    from je_tools.findings import Finding
    from je_tools.output.views.sections import Section
    from je_tools.recovery.snapshot import Snapshot


def show_plan(
    options: EraseOptions, erasing: ErasureOptions, verb: str, more_words: str = ""
) -> int:
    """Write the plan of an erasure, and return the exit code.

    Args:
        options: options of the command line.
        erasing: options of the erasure.
        verb: the command that carries it out.
        more_words: more options of that command, each after a space.

    Raises:
        UsageError: an output is needed, or lies in the environment.
        InputError, StoppedError: as `plan_erasure`.
    """
    from je_tools.erase.plan import plan_erasure
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.erase_tables import plan_sections

    output = options["output"]
    check_has_output(options["format_"], output)
    environment = open_home(options["path"], keep_going=False)
    check_outputs({"output": output, "findings": options["findings_path"]}, environment)
    now_ms = time.time_ns() // 1_000_000
    with member_snapshot(environment, options, now_ms) as snapshot:
        plan = plan_erasure(snapshot, erasing)
        findings = findings_of_log(snapshot)
    form = options["format_"]
    seconds = plan.throttled_seconds(options["max_rate"], now_ms)
    sections = plan_sections(plan, applied=False, as_facts=form == "table", seconds=seconds)
    with open_output(output, environment, chosen_file_mode()) as out:
        write_tables(sections, findings, options, out)
    say_given_up(plan)
    say_given_up_cycle(plan)
    say_kept(plan)
    words = erasing.words + more_words
    _say_what_would_be_done(plan, f"{verb} {quoted(str(options['path']))}{words}")
    exit_zero = options["exit_zero"]
    code = report_findings(
        findings, environment, side_file=options["findings_path"], exit_zero=exit_zero
    )
    is_damaged = any(each.is_damage for each in plan.obstacles) and not exit_zero
    return EXIT_DAMAGE if is_damaged else code


def say_given_up(plan: ErasurePlan) -> None:
    """Warn that other nodes cannot get the erased part of the replication stream from this one."""
    head = plan.head
    if head is not None and head.last_gone is not None:
        first = head.after.range.first
        say(
            f"je-tools: a node that still needs a VLSN below {first} from this one needs a network "
            "restore; `je-tools vlsn compare` shows how far each node is"
        )


def say_kept(plan: ErasurePlan) -> None:
    """Report files that stay as they are, and what to do so that they can be erased."""
    from je_tools.erase.kept_files import kept_texts

    for text in kept_texts(plan):
        say(f"je-tools: {text}")


def say_given_up_cycle(plan: ErasurePlan) -> None:
    """Warn that a cycle is given up although its end has not come."""
    from je_tools.log.field_texts import time_text

    old = None if plan.cycle is None else plan.cycle.given_up
    if old is not None:
        say(
            f"je-tools: the cycle in the log, from {time_text(old.start_ms)} to "
            f"{time_text(old.end_ms)}, begins in the future or ends later than --period allows: "
            "a new one begins. Check the clock if no other --period was used before"
        )


def findings_of_log(snapshot: Snapshot) -> list[Finding]:
    """Return the findings on the part of the log that recovery reads, and on the trees."""
    from je_tools.recovery.findings import missing_findings, snapshot_findings

    return [*snapshot_findings(snapshot), *missing_findings(snapshot)]


def write_tables(
    sections: Sequence[Section], findings: list[Finding], options: EraseOptions, out: BinaryIO
) -> None:
    """Write tables, and the findings where the options want them."""
    from je_tools.output.views.section_formats import write_sections

    form = options["format_"]
    write_sections(form, sections, out, terminal_width(options["output"]))
    add_findings(findings, out, form, options["findings_path"])


def _say_what_would_be_done(plan: ErasurePlan, command: str) -> None:
    if plan.obstacles:
        say("je-tools: nothing can be erased now; the last table says why")
        return
    if not plan.totals.erase_count and not plan.deleted:
        say("je-tools: there is nothing to erase")
        return
    say(
        f"je-tools: nothing was written; `je-tools {command} --apply` erases it. That cannot be "
        "undone"
    )
