"""Headers in the dump equal those of a walk that shares no code with the project.

This covers environments without a print by an engine (such as logs cut inside an entry), and facts
that prints do not show: header sizes, and the absence of gaps between entries.
"""

from __future__ import annotations

from itertools import zip_longest

import pytest

from tests.corpus import Environment
from tests.engine_truth.running import json_rows
from tests.engine_truth.selected import PRINTED, PRINTED_FIXTURES, UNPRINTED, over
from tests.truth.headers import NAMES, Header, walk_log

_CHECKSUMS = {True: "ok", False: "bad", None: "none"}


def check(env: Environment) -> None:
    """Compare the headers of the dump with those of the walk."""
    code, rows = json_rows("dump", env.home)
    assert code == 0
    for header, row in zip_longest(walk_log(env.home), rows):
        assert header is not None, f"the walk does not find {row}"
        assert row is not None, f"not dumped: {header}"
        expected = _row(header)
        assert {name: row[name] for name in expected} == expected


def _row(header: Header) -> dict[str, object]:
    return {
        "file_no": header.lsn >> 32,
        "offset": header.lsn & 0xFFFFFFFF,
        "lsn": f"0x{header.lsn >> 32:x}/0x{header.lsn & 0xFFFFFFFF:x}",
        "type": NAMES[header.type_no],
        "version": header.version,
        "provisional": header.provisional,
        "replicated": header.replicated,
        "invisible": header.invisible,
        "vlsn": header.vlsn,
        "prev_offset": header.prev_offset,
        "header_size": header.header_size,
        "item_size": header.item_size,
        "checksum": _CHECKSUMS[header.checksum_ok],
    }


@over(UNPRINTED + PRINTED_FIXTURES)
def test_some(env: Environment) -> None:
    check(env)


@pytest.mark.exhaustive
@over(UNPRINTED + PRINTED)
def test_all(env: Environment) -> None:
    check(env)
