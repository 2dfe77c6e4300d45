"""Explanations of topics: entry types, exit codes, findings, and the engine's refusals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from msgspec import Struct

from je_tools import findings
from je_tools.errors import EXIT_MEANINGS, UsageError
from je_tools.formats.je.layout import Coding, Field, layout
from je_tools.formats.je.types import (
    BY_NAME,
    ENTRY_TYPES,
    LOG_VERSION_MAX,
    RELEASES,
    EntryType,
)
from je_tools.ignite.records import problems
from je_tools.ignite.store_codes import STORE_CODES
from je_tools.log.field_descriptions import CODINGS, condition_text, field_meaning
from je_tools.recovery.refusals import REFUSALS

_FINDINGS = (*findings.CODES.values(), *STORE_CODES.values(), *problems.CODES.values())

KINDS = ("type", "exit", "finding", "refusal")
"""Kinds of topics, written before the colon."""


class FieldRow(Struct, frozen=True):
    """One declared field; `depth` is the number of groups or lists around it."""

    name: str
    depth: int
    coding: str
    when: str
    meaning: str


class TypeExplanation(Struct, frozen=True):
    """An entry type in one log version.

    Attributes:
        entry_type: the entry type.
        version: log version of `fields`.
        fields: fields of its item, in the order of the bytes.
        layout_versions: log versions in which this layout began, ascending.
    """

    entry_type: EntryType
    version: int
    fields: tuple[FieldRow, ...]
    layout_versions: tuple[int, ...]


class ExitExplanation(Struct, frozen=True):
    """An exit code and its meaning."""

    code: int
    meaning: str


def topic_of(text: str) -> tuple[str, str] | None:
    """Return kind and name of a topic: `type:NameLN`, or a name that only one topic has.

    The result is None if `text` looks like an LSN.

    Raises:
        UsageError: it is neither a topic nor like an LSN.
    """
    kind, colon, name = text.partition(":")
    if colon and kind.lower() in KINDS:
        return kind.lower(), name
    if text[:1].isdigit() or "/" in text:
        return None
    near = topics_called(text)
    if len(near) == 1 and not near[0].endswith(":"):
        kind, _, name = near[0].partition(":")
        return kind, name
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    kinds = ", ".join(f"{known}:" for known in KINDS)
    raise UsageError(f"{text!r}: neither an LSN such as 0x3/0x1a2f nor a topic of {kinds}{hint}")


def topics_called(text: str) -> list[str]:
    """Return the topics whose kind or name alone is `text`."""
    low = text.lower()
    topics = [f"{kind}:" for kind in KINDS if kind == low]
    topics += [f"type:{name}" for name in BY_NAME if name.lower() == low]
    topics += [
        f"finding:{name}"
        for name in dict.fromkeys(each.name for each in _FINDINGS)
        if name.lower() == low
    ]
    return topics + [f"refusal:{name}" for name in REFUSALS if name == low]


def explain_types(name: str, version: int | None = None) -> list[TypeExplanation]:
    """Return the entry type with that name or number, or all of them if `name` is empty.

    Raises:
        UsageError: there is no such type, or it does not occur in that log version.
    """
    if not name:
        return [
            _explain_type(each, version)
            for each in ENTRY_TYPES.values()
            if version is None or each.first_version <= version <= each.last_version
        ]
    known = {each.lower(): entry_type for each, entry_type in BY_NAME.items()}
    known |= {str(no): entry_type for no, entry_type in ENTRY_TYPES.items()}
    entry_type = known.get(name.lower())
    if entry_type is None:
        raise UsageError(_unknown("entry type", name, BY_NAME, "type:"))
    first, last = entry_type.first_version, entry_type.last_version
    if version is not None and not first <= version <= last:
        raise UsageError(f"{entry_type.name} occurs in log versions {first} to {last} only")
    return [_explain_type(entry_type, version)]


def explain_exits(name: str) -> list[ExitExplanation]:
    """Return the exit code of that number, or all of them if `name` is empty.

    Raises:
        UsageError: no command ever exits with it.
    """
    chosen = {str(code): code for code in EXIT_MEANINGS}
    if name and name not in chosen:
        raise UsageError(_unknown("exit code", name, chosen, "exit:"))
    codes = [chosen[name]] if name else list(EXIT_MEANINGS)
    return [ExitExplanation(code, EXIT_MEANINGS[code]) for code in codes]


def explain_findings(name: str) -> list[findings.Code]:
    """Return the findings with that code, or all of them if `name` is empty.

    A code can be that of two findings: one on logs, and one on stores of Ignite.

    Raises:
        UsageError: there is no such code.
    """
    return _explain_codes("finding", name, _FINDINGS)


def explain_refusals(name: str) -> list[findings.Code]:
    """Return the engine's reason to refuse a log by its name, or all of them if `name` is empty.

    Raises:
        UsageError: the engine has no such reason.
    """
    return _explain_codes("refusal", name, tuple(REFUSALS.values()))


def _explain_codes(kind: str, name: str, known: Sequence[findings.Code]) -> list[findings.Code]:
    wanted = name.lower().replace("_", "-")
    found = [each for each in known if each.name.lower().replace("_", "-") == wanted]
    if name and not found:
        raise UsageError(_unknown(kind, name, [each.name for each in known], f"{kind}:"))
    return found if name else list(known)


def _unknown(what: str, name: str, known: Iterable[str], topic: str) -> str:
    matches = get_close_matches(name.lower(), [each.lower() for each in known], n=3)
    names = [each for each in known if each.lower() in matches]
    nearest = f"; did you mean {' or '.join(names)}?" if names else ""
    return f"there is no {what} {name!r}{nearest} (`explain {topic}` lists all)"


def _explain_type(entry_type: EntryType, version: int | None) -> TypeExplanation:
    shown = min(version or LOG_VERSION_MAX, entry_type.last_version)
    fields = tuple(field_rows(layout(entry_type.no, shown), entry_type))
    return TypeExplanation(entry_type, shown, fields, layout_versions(entry_type))


def layout_versions(entry_type: EntryType) -> tuple[int, ...]:
    """Return the first log version of a type, and those in which its fields changed."""
    versions = range(entry_type.first_version, entry_type.last_version + 1)
    return tuple(
        version
        for version in versions
        if version == versions[0]
        or layout(entry_type.no, version) != layout(entry_type.no, version - 1)
    )


def field_rows(
    fields: Iterable[Field], entry_type: EntryType, depth: int = 0
) -> Iterator[FieldRow]:
    """Yield declared fields as rows, each followed by the fields of its group or list."""
    for declared in fields:
        family = entry_type.family
        coding = CODINGS[declared.coding]
        if declared.coding is Coding.LIST:
            coding = f"list of {declared.count}"
        when = condition_text(declared.when, family)
        meaning = field_meaning(declared.name, family)
        yield FieldRow(declared.name, depth, coding, when, meaning)
        yield from field_rows(declared.fields, entry_type, depth + 1)


def versions_text(entry_type: EntryType) -> str:
    """Return the log versions and JE releases that write a type, in words."""
    first, last = entry_type.first_version, entry_type.last_version
    since = "every release" if first == 1 else f"JE {RELEASES[first]}"
    if last == LOG_VERSION_MAX:
        return f"log version {first} and later ({since}" + (")" if first == 1 else " and later)")
    until = f"before JE {RELEASES[last + 1]}"
    start = "" if first == 1 else f"since JE {RELEASES[first]}, "
    return f"log versions {first} to {last} ({start}{until})"
