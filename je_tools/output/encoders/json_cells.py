"""Cells of JSON objects: the fields of an object, each after its label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from je_tools.core.masking import DataMode, Masking
from je_tools.formats.rows import Cell, CellTable, Form, Text

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.formats.spans import Spans


def number_cell(label: str, values: Any, valid: Mask | None = None) -> Cell:
    """Return whole numbers after a label, null if not `valid`."""
    before = label.encode()
    numbers = np.asarray(values, np.int64)
    return Cell(Form.DECIMAL, numbers, before, instead=before + b"null", valid=valid)


def text_cell(label: str, values: Text, form: Form = Form.HEX) -> Cell:
    """Return byte strings after a label and in quotes, or null."""
    before = label.encode()
    return Cell(form, values, before + b'"', b'"', before + b"null")


def masked_cell(label: str, values: Spans, masking: Masking) -> Cell:
    """Return byte strings of records after a label: hexadecimal, or what replaces them."""
    return text_cell(label, masking.column(values), bytes_form(masking))


def bytes_form(masking: Masking) -> Form:
    """Return the form of keys and values of `masking.column`: hexadecimal, or masked text."""
    return Form.HEX if masking.mode is DataMode.SHOW else Form.TEXT


def json_objects(rows: int, fields: Sequence[Cell]) -> CellTable:
    """Return JSON objects of fields, each of which begins with a comma."""
    begin = Cell(Form.NOTHING, before=b"{", opens=True)
    return CellTable(rows, [begin, *fields, Cell(Form.NOTHING, before=b"}")])
