"""Acceptance of environments that we wrote: the real engine must open them and find the records.

The judge works on copies, and uses two engines of one version: one checks its assertions, the other
does not. The one with assertions decides wherever the engine's own recovery passes them.

| rule | broken if |
|---|---|
| `writer` | the writer failed |
| `refusal` | we wrote an environment that cannot be recovered, or refused one that can |
| `records` | the engine, reading only, finds other records than after its own recovery |
| `verify` | it finds errors in trees, in obsolete entries or in the log |
| `quiet` | it writes something when it opens and closes the environment |
| `replay` | recovery has more to do than a checkpoint leaves |
| `work` | records differ after it has opened the environment to write, or has worked on it |
| `vlsn` | a node that has led its group lacks a VLSN, or has one twice or out of order |
| `snapshot` | the expected records are unknown |
"""

from __future__ import annotations

import copy
import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.opening import take_snapshot
from tests.engine.comparison import UNCHECKED, compare, side_of
from tests.engine.jars import engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import Engine, checks_whole_files, engine_class_path
from tests.engine.snapshots import lapsed, recovered
from tests.truth.contents import Contents, Refusal, parse_contents
from tests.truth.headers import NAMES, USER_TYPES, Header
from tests.truth.log_end import good_entries, read_log
from tests.truth.replay import replay

STRICT = ("-ea:com.sleepycat...",)
SEED, TRANSACTIONS = 1, 150
MOST_SHOWN = 6
EXCUSED = frozenset({"replay", "verify", "work"})
"""Rules that are not ours alone to keep: ignored if the engine breaks them too."""

LACKING_FILES = "not asked, files are missing"
"""Answer of the replay of a log that was cut back to before the cleaner removed files.

No crash leaves such a log, and not every file that the engine looks for holds records.
"""
MASK = (1 << 32) - 1
"""Mask of the offset in an LSN."""

_MARK = re.compile("#(problem|report|progress|refused)\t")
_INTERVAL = re.compile(r"(firstActive|ckptStart|ckptEnd|lastUsed)\[0x([0-9a-f]+)/0x([0-9a-f]+)\]")
_COUNTS = re.compile(r"([A-Z]+_[A-Z_]+) ((?:-?[\d,]+ ?){6})")
_UNDONE = ("UNDO_MAP_LNS", "UNDO_LNS")
_NAME_LNS = (5, 6)


class Problem(NamedTuple):
    """A broken rule, by its name in the module's table, and a description."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass
class Told:
    """An answer of Acceptance.java.

    Attributes:
        contents: the records, if it was asked for them, or a refusal.
        problems: errors that it met, refusals among them.
        report: lines in which recovery reports its work.
        phases: phases of progress that it reached.
    """

    contents: Contents | Refusal
    problems: list[str] = field(default_factory=list)
    report: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)


@dataclass
class Expected:
    """The contents that the engine has to find.

    Attributes:
        contents: the records, or the refusal of the engine itself.
        other: the engine's own answer, if that is accepted for some records, too: the engine
            misreads expirations whose unit is lost, except in nodes that we write. It leaves out
            records that only such a misread expiration keeps alive.
        foretold: warnings of the snapshot that explain an error of the engine.
        is_unchecked: True if the log is damaged, and the engine opens it because it does not check
            whole files. We refuse to write it.
        problems: reasons not to rely on this.
    """

    contents: Contents | Refusal
    other: Contents | Refusal | None = None
    foretold: str = ""
    is_unchecked: bool = False
    problems: list[Problem] = field(default_factory=list)


@dataclass
class Verdict:
    """Problems of a written environment, and those that were excused.

    Attributes:
        notes: reasons why fewer rules applied than usual.
    """

    problems: list[Problem]
    notes: list[str] = field(default_factory=list)


class _Asked(NamedTuple):
    """The expectation for an environment and for its control."""

    expected: Expected
    now_ms: int
    node: str | None


class Judge:
    """One version of the engine, with and without its assertions, and a folder to work in."""

    def __init__(self, java: Path, class_path: str, folder: Path) -> None:
        self.java = java
        self.class_path = class_path
        self.folder = folder
        self._copies = 0
        self.plain = Engine(java, class_path, program="Acceptance")
        self.strict = Engine(java, class_path, program="Acceptance", options=STRICT)

    @classmethod
    def of(cls, coordinate: str, folder: Path) -> Judge:
        """Compile the programs for an engine; return a judge that works in a new folder."""
        folder.mkdir(parents=True, exist_ok=True)
        java = find_java()
        return cls(java, engine_class_path(java, engine_jar(coordinate)), folder)

    def at(self, folder: Path) -> Judge:
        """Return a judge that uses the same JVMs and works in another folder."""
        other = copy.copy(self)
        other.folder = folder
        return other

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.plain.__exit__()
        self.strict.__exit__()

    def judge(self, crashed: Path, written: Path, now_ms: int) -> list[Problem]:
        """Return the problems of an environment that we wrote; none if it is accepted.

        Args:
            crashed: the environment as it was found.
            written: the same environment after our writer.
            now_ms: time at which records expire.
        """
        return self.verdict(crashed, written, now_ms).problems

    def verdict(
        self,
        crashed: Path,
        written: Path,
        now_ms: int,
        *,
        refused: str | None = None,
        node: str | None = None,
    ) -> Verdict:
        """Judge like `judge`, and return what was excused, too.

        Args:
            crashed: the environment as it was found.
            written: the same environment after our writer.
            now_ms: time at which records expire.
            refused: our reason not to write it, if any.
            node: if the environment is a node of a group, that node as `node_of` returns it.
        """
        expected = self.expected(crashed, now_ms, node)
        if expected.problems:
            return Verdict(expected.problems)
        if isinstance(expected.contents, Refusal):
            stage = expected.contents.stage
            if stage == "open" and fingerprint(crashed) != fingerprint(written):
                text = f"written, although the engine refuses: {expected.contents}"
                return Verdict([Problem("refusal", text)])
            return Verdict([], [f"the engine refuses: {stage}"])
        if refused is not None and expected.foretold == LACKING_FILES:
            return Verdict([], [f"refused: {LACKING_FILES}"])
        if refused is not None and expected.is_unchecked:
            return Verdict([], [f"refused: {UNCHECKED}"])
        if refused is not None:
            return Verdict([Problem("refusal", refused)])
        asked = _Asked(expected, now_ms, node)
        verdict = Verdict(self._asked(self.strict, written, asked))
        if expected.foretold:
            verdict.notes.append(f"8.11: {expected.foretold}")
        if verdict.problems:
            self._excuse(verdict, crashed, written, asked)
        return verdict

    def _excuse(self, verdict: Verdict, crashed: Path, written: Path, asked: _Asked) -> None:
        """Remove problems that the output of the engine's own recovery has, too."""
        with self._copy(crashed) as control:
            try:
                self.write_as_engine(control, asked.node)
            except WriteRefusedError:
                return
            found = self._asked(self.strict, control, asked)
            if _asserted(verdict.problems) and _asserted(found):
                verdict.problems = self._asked(self.plain, written, asked)
                verdict.notes.append("without assertions")
                found = self._asked(self.plain, control, asked)
        if asked.expected.foretold and asked.expected.other is None:
            # The engine is known to fail here, and we must not.
            return
        shared = {each.rule for each in found} & {each.rule for each in verdict.problems}
        # Verification that finds damage closes the environment, so that no records are read.
        excused = shared & (EXCUSED | {"records"} if "verify" in shared else EXCUSED)
        verdict.notes += [f"the engine itself breaks: {rule}" for rule in sorted(excused)]
        verdict.problems = [each for each in verdict.problems if each.rule not in excused]

    def expected(self, crashed: Path, now_ms: int, node: str | None = None) -> Expected:
        """Return what the engine recovers from a copy, or the snapshot's answer if it fails.

        The engine is believed unless the snapshot warned of its error, and also either the engine
        gives up or the replay of the whole log contradicts it. A node of a group is only opened for
        reading.
        """
        with self._copy(crashed) as home:
            engine = self.plain.ask(home, now_ms, read_only=node is not None)
        told = recovered(crashed, now_ms)
        if node is not None and isinstance(engine, Refusal):
            # Some states can be recovered, but not opened for reading before that.
            return Expected(told.contents)
        found = compare(told.contents, engine)
        refused = isinstance(engine, Refusal) and engine.stage == "open"
        if found is None or (refused and isinstance(told.contents, Refusal)):
            other = _without_lapsed(engine, crashed, now_ms)
            return Expected(engine, other, "" if other is None else "expiration-unit")
        may_pass = found.group == UNCHECKED and not checks_whole_files(self.class_path)
        if may_pass and read_log(crashed).damaged:
            return Expected(engine, is_unchecked=True)
        explaining = sorted({each.word for each in told.warnings if each.explains(found)})
        side = "snapshot"
        if not explaining or not found.group.startswith("engine alone"):
            ours = told.contents
            if "expiration-unit" in explaining:
                # An expiration that the engine multiplies once more exceeds 32 bits, and the record
                # is gone. The snapshot keeps it for ever, and the replay until it expires.
                ours = _without_lapsed(ours, crashed, now_ms, by_unit=True) or ours
            side = side_of(replay(crashed, now_ms), ours, engine)
        if found.group.startswith("engine alone") and side == LACKING_FILES:
            return Expected(told.contents, foretold=LACKING_FILES)
        if not explaining or side in ("engine", "neither"):
            text = f"{': '.join(found[:2])}, replay: {side}, foretold: {explaining}"
            return Expected(engine, problems=[Problem("snapshot", text)])
        if explaining == ["damage"] and isinstance(engine, Refusal):
            return Expected(engine)
        is_other = "expiration-unit" in explaining and not isinstance(engine, Refusal)
        other = (_without_lapsed(engine, crashed, now_ms) or engine) if is_other else None
        return Expected(told.contents, other, " ".join(explaining))

    def write_as_engine(self, home: Path, node: str | None = None) -> None:
        """Let the engine's own recovery write the environment: its output is accepted.

        Args:
            home: the environment.
            node: if the environment is a node of a group, that node as `node_of` returns it.

        Raises:
            WriteRefusedError: the engine refuses; the directory is unchanged.
        """
        words = [] if node is None else [node]
        with self._copy(home) as place:
            before = None
            # Work that it finishes after recovery may leave something to do for the next recovery.
            while before != fingerprint(place):
                before = fingerprint(place)
                told = self.told(self.plain, place, "recover", 0, *words)
                if told.problems:
                    raise WriteRefusedError(told.problems[0])
            for path in log_files(home):
                path.unlink()
            for path in log_files(place):
                shutil.copyfile(path, home / path.name)

    def told(self, engine: Engine, home: Path, question: str, *words: object) -> Told:
        """Return the answer to a question of Acceptance.java."""
        lines = engine.tell(home, question, *words)
        if isinstance(lines, Refusal):
            return Told(lines, [f"{question}: {lines.stage} {lines.reason}"])
        marked: dict[str, list[str]] = {"problem": [], "report": [], "progress": [], "refused": []}
        records = []
        for line in lines:
            mark = _MARK.match(line)
            if mark is None:
                records.append(line)
            else:
                marked[mark[1]].append(line[mark.end() :].rstrip("\n"))
        refused = [f"refused {' '.join(each.split())}" for each in marked["refused"]]
        problems = refused + marked["problem"]
        return Told(parse_contents(records), problems, marked["report"], marked["progress"])

    def _asked(self, strict: Engine, written: Path, asked: _Asked) -> list[Problem]:
        """Return the problems. The workload runs without assertions: the evictor fails some."""
        expected, now_ms = asked.expected, asked.now_ms
        node = [] if asked.node is None else [asked.node]
        with self._copy(written) as home:
            before = fingerprint(home)
            told = self.told(strict, home, "check", now_ms)
            problems = [Problem("verify", text) for text in told.problems]
            problems += compare_told(expected, told, "records")
            problems += [Problem("replay", text) for text in replays(home)]
            told = self.told(strict, home, "quiet", now_ms, *node)
            problems += [Problem("quiet", text) for text in told.problems]
            if fingerprint(home) != before:
                problems.append(Problem("quiet", _differences(before, home)))
            problems += [Problem("replay", text) for text in _reported(told)]
            told = self.told(self.plain, home, "work", now_ms, SEED, TRANSACTIONS, *node)
            problems += [Problem("work", text) for text in told.problems[:MOST_SHOWN]]
            problems += compare_told(expected, told, "work")
            return problems + [Problem("vlsn", text) for text in vlsn_gaps(home) if node]

    def _copy(self, home: Path) -> Copy:
        # An engine that failed may still have an environment open at the same path.
        self._copies += 1
        return Copy(home, self.folder / f"judged-{self._copies}")


class WriteRefusedError(Exception):
    """A writer's refusal, with its reason; the environment is unchanged."""


class Copy:
    """A copy of an environment's log that is removed when the context ends."""

    def __init__(self, home: Path, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True)
        for path in log_files(home):
            shutil.copyfile(path, place / path.name)

    def __enter__(self) -> Path:
        return self.place

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.place)


Fingerprint = dict[str, tuple[int, str]]
"""Size and SHA-256 of each file of a log."""


def fingerprint(home: Path) -> Fingerprint:
    """Fingerprint a log, to show that no byte was written; lock and messages are excluded."""
    found = {}
    for path in log_files(home):
        data = path.read_bytes()
        found[path.name] = (len(data), hashlib.sha256(data).hexdigest())
    return found


def log_files(home: Path) -> list[Path]:
    """Return the files of a log, including those that were set aside or given up."""
    return [path for path in sorted(home.iterdir()) if path.suffix in (".jdb", ".bad", ".del")]


def node_of(home: Path, name: str) -> str | None:
    """Return GROUP/NAME/HOST:PORT of a node, read from its log; None if the log has no group."""
    snapshot = take_snapshot(open_environment([home]), Scanner(threads=1), now_ms=0)
    group = address = None
    for database in snapshot.databases.values():
        for batch in snapshot.records(database) if database.name == REP_GROUP_DB else ():
            for row in range(len(batch)):
                key, data = batch.key[row] or b"", batch.data[row] or b""
                if key == b"$$GROUP_KEY$$\0":
                    group = data.split(b"\0")[0].decode()
                elif key == name.encode() + b"\0":
                    # Name, number, and four bytes before host and port.
                    host, behind = data[len(key) + 8 :].split(b"\0", 1)
                    port = int.from_bytes(behind[:4], "big") - (1 << 31)
                    address = f"{host.decode()}:{port}"
    return f"{group}/{name}/{address}" if group and address else None


def replays(home: Path) -> Iterator[str]:
    """Yield what a checkpointed log has after firstActive that no checkpoint leaves there.

    A checkpoint leaves descriptors of databases, and the engine's records of utilization,
    expirations and VLSNs. A replicated node may also have unfinished transactions.
    """
    log = read_log(home)
    entries = list(log.entries())
    ends = [(header, item) for header, item in entries if header.type_no == 20]
    if not ends or entries[-1][0] is not ends[-1][0]:
        yield "the last entry is no CkptEnd"
        return
    fields = decode_entry(_entry(log.files, ends[-1][0]), ends[-1][0].version).fields
    start = fields["first_active_lsn"] & (1 << 64) - 1
    snapshot = take_snapshot(open_environment([home]), Scanner(threads=1), now_ms=0)
    internal = {db_id for db_id, each in snapshot.databases.items() if each.is_internal}
    met: Counter[str] = Counter()
    for header, _ in entries:
        if header.lsn < start or header.replicated:
            continue
        if header.type_no in _NAME_LNS or header.type_no in USER_TYPES:
            db_id = decode_entry(_entry(log.files, header), header.version).fields["db_id"]
            if db_id not in internal:
                met[f"{NAMES[header.type_no]} of database {db_id}"] += 1
    for what, count in met.most_common(MOST_SHOWN):
        yield f"{count} {what} behind firstActive"


def vlsn_gaps(home: Path) -> Iterator[str]:
    """Yield the places where the VLSNs of a log's visible entries are not consecutive."""
    last = None
    for header, _ in read_log(home).entries():
        if header.vlsn is None or not header.replicated or header.invisible:
            continue
        if last is not None and header.vlsn != last + 1:
            where = f"{header.lsn >> 32:#x}/{header.lsn & MASK:#x}"
            yield f"VLSN {header.vlsn} behind {last} at {where}"
        last = header.vlsn


def _entry(files: dict[int, bytes], header: Header) -> bytes:
    start = header.lsn & MASK
    return files[header.lsn >> 32][start : start + header.size]


def _reported(told: Told) -> Iterator[str]:
    """Yield recovery's own reports of more work than a checkpoint leaves."""
    if "CKPT" in told.phases:
        yield "the engine writes a checkpoint when it opens"
    text = "\n".join(told.report)
    lsns = {name: (int(file, 16), int(at, 16)) for name, file, at in _INTERVAL.findall(text)}
    if not lsns:
        yield "recovery did not report"
        return
    if lsns["ckptEnd"] != lsns["lastUsed"]:
        yield f"the last entry is at {lsns['lastUsed']}, the last CkptEnd at {lsns['ckptEnd']}"
    for phase, numbers in _COUNTS.findall(text):
        processed = int(numbers.split()[1].replace(",", ""))
        if phase in _UNDONE and processed:
            yield f"{phase}: {processed} entries undone"


def _without_lapsed(
    found: Contents | Refusal, crashed: Path, now_ms: int, *, by_unit: bool = False
) -> Contents | None:
    """Return records without those of `lapsed`; None if it returns none, or for a refusal."""
    keys = {} if isinstance(found, Refusal) else lapsed(crashed, now_ms, by_unit=by_unit)
    if isinstance(found, Refusal) or not keys:
        return None
    return {
        name: [each for each in records if each[0] not in keys.get(name, ())]
        for name, records in found.items()
    }


def compare_told(expected: Expected, told: Told, rule: str) -> list[Problem]:
    found = compare(expected.contents, told.contents)
    if found is None or (expected.other is not None and _is_between(expected, told.contents)):
        return []
    # The text of a comparison says "snapshot"; here it is the expectation.
    text = ": ".join(found[:2]).replace("snapshot alone", "expected alone")
    return [Problem(rule, text)]


def _is_between(expected: Expected, found: Contents | Refusal) -> bool:
    """Return whether each record agrees with one of the two expectations."""
    one, other = expected.contents, expected.other
    if not isinstance(one, dict) or not isinstance(found, dict) or not isinstance(other, dict):
        return False
    if not one.keys() == other.keys() == found.keys():
        return False
    for name, records in found.items():
        ours, theirs, counts = Counter(one[name]), Counter(other[name]), Counter(records)
        both, either = ours & theirs, ours | theirs
        if both - counts or counts - either:
            return False
        if [each for each in records if each in both] != [
            each for each in one[name] if each in both
        ]:
            return False
    return True


def _asserted(problems: Sequence[Problem]) -> bool:
    return any("AssertionError" in each.text for each in problems)


def _differences(before: Fingerprint, home: Path) -> str:
    """Describe the files that the engine has written to, and the entries it added."""
    after = fingerprint(home)
    said = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        size = before.get(name, (0, ""))[0]
        now = after.get(name, (0, ""))[0]
        types = []
        if name in after and name.endswith(".jdb"):
            entries = good_entries((home / name).read_bytes(), int(name[:8], 16)).entries
            new = [NAMES[each.type_no] for each in entries if each.lsn & MASK >= size]
            types = [f"{count} {what}" for what, count in Counter(new).items()]
        said.append(f"{name}: {size} to {now} bytes {', '.join(types)}".rstrip())
    return "the engine writes: " + "; ".join(said)
