"""`je-tools erase run`: entries that nothing needs, overwritten in place."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from msgspec.structs import replace

from je_tools.commands._erase_options import (
    EraseOptions,
    StopRequest,
    chosen_erasure,
    erase_options,
    stopping_on_signals,
)
from je_tools.commands._erase_reports import (
    say_given_up,
    say_given_up_cycle,
    say_kept,
    show_plan,
    write_tables,
)
from je_tools.commands._findings import check_outputs
from je_tools.commands._options import A_PATH, CONTEXT, chosen_file_mode
from je_tools.commands._scanning import staged_scanner
from je_tools.commands._snapshot import open_home
from je_tools.commands._terminal import say
from je_tools.commands._writing import apply_option, say_reader
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError

if TYPE_CHECKING:
    from je_tools.commands._progress import Stages
    from je_tools.erase.control_files import ErasureControl
    from je_tools.erase.plan import ErasurePlan
    from je_tools.erase.results import ErasureHooks, ErasureResult
    from je_tools.erase.run_report import RunReport
    from je_tools.log.environment import Environment
    from je_tools.writing.lock import EnvironmentLock


class Options(EraseOptions):
    """Options of the command line."""

    apply: bool
    until: str | None
    report: Path | None


@click.command("run", context_settings=CONTEXT)
@erase_options
@apply_option
@click.option(
    "--until",
    metavar="TIME",
    help="Stop at this time, at a safe point. UTC: 2026-11-24T06:00, or 06:00 for the next 06:00.",
)
@click.option(
    "--report",
    type=A_PATH,
    metavar="FILE",
    help="Write the byte ranges that change, and the time of each fsync, to this file, as JSON "
    "lines without data.",
)
def command(**options: Unpack[Options]) -> int:
    """Overwrite what nothing needs any more, by the protocol of the engine's eraser.

    The types of some thousand entries are changed to Erased and made durable. Then their bytes are
    overwritten with zeros, and made durable. At every instant a crash or a power cut leaves a log
    that the engine opens with the same records; `je-tools erase resume` finishes the rest.
    Before it erases, the command deletes the files that the cleaner has reserved, and on a node of
    a group it takes the VLSNs of the erased entries out of the VLSN index and writes a checkpoint.

    What is erased cannot be restored, so there is no undo journal. No earlier one may exist either:
    its undo would restore erased nodes. Copies of the log elsewhere are not touched.

    With --period, files are erased in cycles, and the work is spread until the end of the cycle or
    --until. The engine's own eraser continues such a cycle, and the command continues one of the
    eraser. SIGTERM and Ctrl-C stop the command at the next safe point.

    Without --apply, the command shows the plan, as `je-tools erase plan` does.

    \b
    Examples:
      je-tools erase run env --apply
      je-tools erase run env --checkpoint-first --apply --report erased.jsonl
      je-tools erase run env --period 30d --until 06:00 --apply
    """
    erasing = chosen_erasure(options)
    until_ms = _until(options["until"])
    if not options["apply"]:
        more_words = "" if until_ms is None else f" --until {options['until']}"
        return show_plan(options, erasing, "erase run", more_words)
    if options["format_"] == "parquet":
        raise UsageError("--format parquet and --apply exclude each other: choose another format")
    return _run(options, until_ms)


def _run(options: Options, until_ms: int | None) -> int:
    """Erase, and return the exit code."""
    from je_tools.checkpoint.checks import check_readable
    from je_tools.erase.control_files import ErasureControl
    from je_tools.erase.progress import note_progress
    from je_tools.erase.run import run_erasure
    from je_tools.erase.run_report import RunReport
    from je_tools.writing.disk import Disk

    home = options["path"]
    environment = open_home(home, keep_going=False)
    check_readable(environment)
    outputs = {"output": options["output"], "findings": options["findings_path"]}
    check_outputs({**outputs, "report": options["report"]}, environment)
    now_ms, disk = time.time_ns() // 1_000_000, Disk()
    control = ErasureControl(home, disk)
    with ExitStack() as stack:
        report = stack.enter_context(RunReport.opened(options["report"], environment))
        scanner, stages = stack.enter_context(staged_scanner(environment, options))
        request = stack.enter_context(stopping_on_signals())
        stack.enter_context(control)
        hooks = _hooks(options, until_ms, control, request, report, stages)

        def record(lock: EnvironmentLock, erased: ErasureResult) -> None:
            erased.state = note_progress(lock, home, scanner, erased, now_ms, disk)
            control.clear(each.path.name for each in erased.untouched)

        hooks = replace(hooks, on_erased=record)
        result = run_erasure(home, scanner, chosen_erasure(options), now_ms, hooks, disk=disk)
    _write_result(result, options, environment)
    return _say_result(result, request, options)


def _hooks(
    options: Options,
    until_ms: int | None,
    control: ErasureControl,
    request: StopRequest,
    report: RunReport,
    stages: Stages,
) -> ErasureHooks:
    """Return the functions that are called while the log is erased."""
    from je_tools.erase.results import ErasureHooks
    from je_tools.erase.throttle import FILE_WORK, WorkThrottle

    throttles: list[WorkThrottle] = []

    def should_stop() -> bool:
        late = until_ms is not None and time.time_ns() // 1_000_000 >= until_ms
        return request.is_made or late

    def begin(plan: ErasurePlan) -> None:
        size = plan.work_size
        if stages.stage is not None:
            stages.stage("erasing", FILE_WORK * size)
        if options["max_rate"] is not None:
            throttles.append(WorkThrottle.at_rate(options["max_rate"], should_stop))
        elif plan.cycle is not None:
            end_ms = min(plan.cycle.state.end_ms, until_ms or plan.cycle.state.end_ms)
            seconds = end_ms / 1000 - time.time()
            throttles.append(WorkThrottle.over(seconds, size, should_stop))

    def work(size: float) -> None:
        if stages.progress is not None:
            stages.progress(int(size))
        for throttle in throttles:
            throttle.work(size)

    return ErasureHooks(
        should_stop=should_stop,
        is_protected=control.is_protected,
        on_reader=lambda reader: say_reader(reader, is_cut=False),
        on_plan=begin,
        on_batch=report.note_batch,
        on_blanks=report.note_blanks,
        on_fsync=report.note_fsync,
        on_work=work,
    )


def _until(text: str | None) -> int | None:
    """Return the time of `--until` in milliseconds since 1970.

    Raises:
        UsageError: the text is not a time, or the time has passed.
    """
    from je_tools.log.time_filter import parse_time

    if text is None:
        return None
    now = datetime.now(UTC)
    match = re.fullmatch(r"([01][0-9]|2[0-3]):([0-5][0-9])", text)
    if match is not None:
        until = now.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
        until += timedelta(days=until <= now)
        return int(until.timestamp() * 1000)
    try:
        until_ms = parse_time(text)
    except UsageError as error:
        raise UsageError(f"--until {error}; or 06:00 for the next 06:00") from None
    if until_ms <= now.timestamp() * 1000:
        raise UsageError(f"--until {text}: that time has passed")
    return until_ms


def _write_result(result: ErasureResult, options: Options, environment: Environment) -> None:
    from je_tools.erase.statistics import statistics_of
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.erase_tables import plan_sections, result_sections

    as_facts = options["format_"] == "table"
    planned = plan_sections(result.plan, applied=True, as_facts=as_facts)
    done = result_sections(result, statistics_of(result, result.state), as_facts=as_facts)
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        write_tables([*planned, *done], [], options, out)


def _say_result(result: ErasureResult, request: StopRequest, options: Options) -> int:
    """Report how far the erasure came, and return the exit code."""
    counts = result.counts
    done = f"{counts.entry_count:,} entries with {counts.entry_size:,} bytes are erased"
    say_given_up(result.plan)
    say_given_up_cycle(result.plan)
    say_kept(result.plan)
    if result.shared:
        names = ", ".join(file.path.name for file in result.shared)
        say(f"je-tools: {names}: left as they are, because they now have other hard links")
    if result.protected:
        names = ", ".join(file.path.name for file in result.protected)
        say(f"je-tools: {names}: left as they are, as `je-tools erase abort` asked")
    if result.pending:
        say(f"je-tools: {done}; {len(result.pending):,} files are left for the next run")
        return EXIT_OK if request.exit_code is None else request.exit_code
    left = result.left
    if left is not None and left.obstacles:
        say("je-tools: the log is not as it should be after the erasure:")
        for each in left.obstacles:
            say(f"je-tools: {each.text}")
        return EXIT_OK if options["exit_zero"] else EXIT_DAMAGE
    state = result.state
    in_cycle = "" if state is None else f"; {len(state.pending):,} files are left in this cycle"
    say(f"je-tools: {done}, and the log was read again: all that its trees need is there{in_cycle}")
    return EXIT_OK
