"""The reader of prints: unknown text is an error, and nothing is skipped."""

from __future__ import annotations

import pytest

from tests.truth.printlog import PrintlogError, parse_printlog

_COMMIT = (
    '<entry lsn="0x0/0x169" type="Commit/17" prev="0x13d" size="12" cksum="573309989">'
    '<TxnCommit id="1" time="2026-11-20 23:10:20.8" master="0" dtvlsn="0">'
    '<DbLsn val="0x0/0xc7"/></TxnCommit></entry>'
)
_TRACE = (
    '<entry lsn="0x0/0x200" type="Trace/17" prev="0x169" size="38" cksum="1">'
    '<Dbg time="2026-11-20 23:11:44.432"><msg val="{}"/></Dbg></entry>'
)


def print_of(*entries: str) -> str:
    """Return a whole print."""
    return "\n".join(["<DbPrintLog>", *entries, "</DbPrintLog>", ""])


def test_entry() -> None:
    (entry,) = parse_printlog(print_of(_COMMIT))
    assert (entry.lsn_text, entry.type, entry.version, entry.txn_id) == (
        "0x0/0x169",
        "Commit",
        17,
        1,
    )
    assert entry.fields == {
        "time_ms": 1795216220800,
        "master_node_id": 0,
        "last_lsn": "0x0/0xc7",
        "dtvlsn": 0,
    }


def test_message_that_looks_like_an_entry() -> None:
    message = f"first\n{_COMMIT.removesuffix('</entry>')}\nlast"
    trace, commit = parse_printlog(print_of(_TRACE.format(message), _COMMIT))
    assert trace.fields["message"] == message
    assert commit.type == "Commit"


@pytest.mark.parametrize(
    "entry",
    [
        _COMMIT.replace("Commit/17", "Unheard/17"),
        _COMMIT.replace('dtvlsn="0"', 'dtvlsn="0" later="1"'),
        _COMMIT.replace("</entry>", "<more/></entry>"),
        _COMMIT.replace("23:10:20.8", "23.10"),
        _COMMIT.replace(' size="12"', ""),
        _COMMIT.replace(" prev=", " provided= prev="),
    ],
    ids=["type", "attribute", "element", "time", "no-size", "header"],
)
def test_unknown(entry: str) -> None:
    with pytest.raises(PrintlogError):
        list(parse_printlog(print_of(_COMMIT, entry)))


@pytest.mark.parametrize(
    "text",
    ["", print_of(_COMMIT)[:-14], print_of(_COMMIT)[12:], "Exception\n" + print_of(_COMMIT)],
    ids=["empty", "end", "beginning", "before"],
)
def test_not_whole(text: str) -> None:
    with pytest.raises(PrintlogError):
        list(parse_printlog(text))
