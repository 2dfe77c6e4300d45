"""Bytes become text in few places, all known: a key or data of a record only through `Masking`.

Columns of byte strings reach an output as `Text` (formats/rows.py), which mypy checks: a `Cell`
takes no `Spans`. `Masking.column` makes it of records, `text_of_ours` of anything else. This test
lists the places that call the latter, or that make text of single byte strings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAKERS = {"gather_hex", "gather_printable", "text_of_ours"}
METHODS = {"hex", "decode", "b64encode", "hexlify"}
NO_BYTES = {"entries", "FileSummaryKey"}
"""Receivers whose `decode` returns no text."""

TEXTS = {
    "je_tools/api/arguments.py grep_text": "an argument of the caller",
    "je_tools/api/arguments.py key_text": "an argument of the caller",
    "je_tools/audit/environment_list.py EnvironmentList._row": "rows of tables, which hold no data",
    "je_tools/audit/known_environments.py known_rows": "rows of tables, which hold no data",
    "je_tools/audit/member_reports.py unpack_facts": "names of nodes, and numbers",
    "je_tools/audit/member_reports.py unpack_report": "names of nodes, and numbers",
    "je_tools/core/escaping.py _printable_character": "text that is text already",
    "je_tools/core/escaping.py clean_text": "text that is text already",
    "je_tools/core/key_forms.py key_form": "called if nothing is masked",
    "je_tools/core/key_forms.py value_form": "called if nothing is masked",
    "je_tools/core/masking.py Masking.column": "Masking",
    "je_tools/core/masking.py Masking.field_text": "Masking",
    "je_tools/core/masking.py Masking.key_text": "Masking",
    "je_tools/core/masking.py Masking.text_of": "Masking",
    "je_tools/core/properties.py parse_properties": "je.properties",
    "je_tools/diff/records.py Comparison._whole": "joins keys and data to compare them",
    "je_tools/erase/in_kind/redo_journal.py _decoded": "returns no text",
    "je_tools/erase/proof/file_manifest.py read_file_manifest": "a file that the caller gave",
    "je_tools/erase/proof/needle_files.py read_needles": "a file that the caller gave",
    "je_tools/erase/proof/needle_files.py write_needles": "a salt",
    "je_tools/erase/proof/needle_options.py file_needles": "arguments of the caller, never shown",
    "je_tools/erase/proof/needles.py NeedleSearch.__init__": "arguments of the caller, never shown",
    "je_tools/erase/proof/needles.py _check_patterns": "arguments of the caller, never shown",
    "je_tools/erase/proof/needles.py loose_count": "arguments of the caller, never shown",
    "je_tools/erase/proof/reported_run.py read_run_report": "a file that the caller gave",
    "je_tools/explain/message_places.py _store_places": "a message that the caller gave",
    "je_tools/explain/message_places.py places_in": "a message that the caller gave",
    "je_tools/explain/recognition.py _excerpt": "a message that the caller gave",
    "je_tools/explain/recognition.py _read_entry": "a message that the caller gave",
    "je_tools/explain/recognition.py recognise": "a message that the caller gave",
    "je_tools/ignite/wal/dump_fields.py _field": "numbers of pages",
    "je_tools/ignite/wal/dump_fields.py _value": "ids of nodes, names of indexes and snapshots",
    "je_tools/ignite/wal/dump_fields.py page_texts": "numbers of pages",
    "je_tools/ignite/values/types.py node_types": "names of classes, escaped in the extension",
    "je_tools/ignite/values/side_files.py _class_name_fault": "returns no text of the bytes",
    "je_tools/journal/payload.py DecodedValue.text": "called if nothing is masked",
    "je_tools/journal/payload.py _is_text": "returns no text",
    "je_tools/log/field_texts.py bytes_text": "fields that explain shows; it masks them before",
    "je_tools/log/names.py _records": "names of databases",
    "je_tools/output/encoders/arrow_texts.py data_texts": "called if nothing is masked",
    "je_tools/output/encoders/entry_jsonl.py _fields": "fields that are not in KEY_FIELDS",
    "je_tools/output/encoders/entry_jsonl.py _singles": "JSON whose bytes field_text has made",
    "je_tools/output/encoders/entry_lines.py _keys": "called if nothing is masked",
    "je_tools/output/encoders/entry_lines.py _preview": "called if nothing is masked",
    "je_tools/output/encoders/record_lines.py _json_lines": "fixed text",
    "je_tools/output/encoders/record_lines.py _objects": "internal records, if nothing is masked",
    "je_tools/output/encoders/typed_records.py _of_entry": "internal records, if nothing is masked",
    "je_tools/output/encoders/typed_records.py _value": "internal records, if nothing is masked",
    "je_tools/output/files/file_names.py _cut": "names of databases",
    "je_tools/output/files/unfinished.py _made": "random bytes",
    "je_tools/output/views/explanations.py _plain": "fields that explain has masked",
    "je_tools/output/views/explanations.py entry_rows": "fields that explain does not mask",
    "je_tools/pages/rendering.py _source": "digests of scripts",
    "je_tools/recovery/catalogue.py _names": "names of databases",
    "je_tools/recovery/findings.py _of_creations": "names of databases",
    "je_tools/recovery/lost_content.py _names_of": "names of databases",
    "je_tools/recovery/plan.py _database_changes": "names of databases",
    "je_tools/salvage/dangling.py DanglingFinder._whole_keys": "joins parts of keys",
    "je_tools/salvage/report.py _lost_names": "names of databases",
    "je_tools/vlsn/node_report.py read_report": "a report that the caller gave",
    "je_tools/writing/disk.py can_be_like": "random bytes",
    "je_tools/writing/lock.py _command": "command lines of processes",
    "je_tools/writing/pending_writes.py PendingWrites.flip": "bits of headers that are flipped",
}
"""Reasons by module and function."""


def found_in(path: Path) -> Iterator[str]:
    """Yield the name of the function around each place that makes text of bytes."""
    tree = ast.parse(path.read_text())
    owners: list[tuple[ast.AST, str]] = [(tree, "")]
    while owners:
        node, owner = owners.pop()
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(child, ast.FunctionDef | ast.ClassDef)
            name = f"{owner}.{child.name}".lstrip(".") if is_function else owner  # type: ignore[attr-defined]
            if isinstance(child, ast.Call) and makes_text(child):
                yield name
            owners.append((child, name))


def makes_text(call: ast.Call) -> bool:
    """Return True for a call that makes text of bytes."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in MAKERS
    if not isinstance(function, ast.Attribute) or function.attr not in METHODS:
        return False
    receiver = function.value
    if isinstance(receiver, ast.Name) and receiver.id in NO_BYTES:
        return False
    return function.attr != "hex" or not call.args


def test_all_places_that_make_text_of_bytes_are_known() -> None:
    """A new place needs a reason why it can show nothing that `--data` masks."""
    found = {
        f"{path.relative_to(ROOT)} {name}"
        for folder in ("commands", "je_tools")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in found_in(path)
    }
    assert found == TEXTS.keys()
