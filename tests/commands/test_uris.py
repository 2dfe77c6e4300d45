"""Logs read by URI: the same results, few requests, and clear errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from je_tools.audit.discover import find_fleet
from je_tools.audit.known_environments import signature_of
from je_tools.audit.known_files import KnownFiles, mark_of
from je_tools.errors import InputError, StoppedError
from je_tools.formats.files import remote_store
from je_tools.formats.files.remote_path import located
from je_tools.formats.files.uris import masked_text
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.spark.places import LogPlaces
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals
from tests.builders.trees import simple
from tests.corpus import FIXTURES
from tests.damage.running import je_tools
from tests.s3_store import BUCKET, S3Store

TOOL = Path(sys.executable).parent / "je-tools"
LOGS = ("v17-erase-after", "v17-basic", "v26-dbops")
VERBS = (("verify", "--all"), ("summary", "--by-db", "--checkpoints"), ("files",), ("dump",))
BASIC = FIXTURES / "v17-basic" / "env"


def run(variables: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, *words], env=variables, capture_output=True, text=True, check=False
    )


def verified(uri: str) -> list[str]:
    environment = open_environment([located(uri)], keep_going=True)
    found = verify(environment, Scanner(wide=True), Totals(environment.name))
    return [each.text() for each in found]


def verbs_and_logs() -> Iterator[Any]:
    """Yield each command with the log of several files, and the first one with each log.

    The others are exhaustive: what reads a store does not know what a log holds.
    """
    for at, verb in enumerate(VERBS):
        for number, name in enumerate(LOGS):
            marks = [pytest.mark.exhaustive] if at and number else []
            yield pytest.param(verb, name, marks=marks, id=f"{verb[0]}-{name}")


@pytest.mark.parametrize(("verb", "name"), list(verbs_and_logs()))
def test_results_are_those_of_local_files(store: S3Store, name: str, verb: tuple[str, ...]) -> None:
    home = FIXTURES / name / "env"
    uri = store.put(home, name)
    remote, local = je_tools(*verb, uri), je_tools(*verb, home)
    assert local.out
    assert remote.out.replace(uri.encode(), bytes(home)) == local.out
    assert remote.code == local.code
    note, *said = remote.err.splitlines()
    assert "which shows no locks" in note
    assert [line.replace(uri, str(home)) for line in said] == local.err.splitlines()


def test_a_log_file_is_read_by_its_own_uri(store: S3Store, variables: dict[str, str]) -> None:
    """In a process of its own, which finds the store by its variables."""
    uri = f"{store.put(BASIC, 'single')}/00000000.jdb"
    remote = run(variables, "verify", "--all", uri)
    local = je_tools("verify", "--all", BASIC / "00000000.jdb")
    assert remote.stdout.replace(uri, str(BASIC / "00000000.jdb")) == local.out.decode()
    assert remote.returncode == local.code


def test_opening_reads_a_small_part_of_each_file_once(store: S3Store) -> None:
    uri = store.put(BASIC, "opened")
    environment = open_environment([located(uri)])
    assert [read.path for read in store.reads] == [
        f"/{BUCKET}/opened/{file.path.name}" for file in environment.files
    ]
    assert all(read.size <= 16 << 10 for read in store.reads)
    assert len(store.requests) - len(store.reads) <= 8


def test_a_scan_reads_each_byte_once(store: S3Store, tmp_path: Path) -> None:
    log = simple({b"%05d" % i: bytes(900) for i in range(12_000)})
    uri = store.put(log.write(tmp_path / "env"), "large")
    environment = open_environment([located(uri)])
    store.requests.clear()
    assert environment.size > 10 << 20
    for _ in Scanner(wide=True).scan(environment, len):
        pass
    assert sum(read.size for read in store.reads) <= environment.size * 1.05
    assert len(store.reads) <= environment.size // (4 << 20) + 2 * len(environment.files)


def test_a_blank_tail_is_hardly_read_twice(store: S3Store, tmp_path: Path) -> None:
    home = simple({b"%05d" % i: bytes(900) for i in range(1_000)}).write(tmp_path / "env")
    with (home / "00000000.jdb").open("ab") as last:
        last.truncate(24 << 20)
    uri = store.put(home, "blank")
    assert any("zero-tail" in text for text in verified(uri))
    assert sum(read.size for read in store.reads) <= 36 << 20


def test_whether_missing_files_are_in_use_is_read_from_trees(store: S3Store) -> None:
    home = FIXTURES / "v8-cleaned" / "env"
    uri = store.put(home, "cleaned")
    assert [text.replace(uri, str(home)) for text in verified(uri)] == verified(str(home))


def test_more_files_than_a_page_of_a_listing(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has pages of 20 names, where others have a thousand."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "20")
    header = (BASIC / "00000000.jdb").read_bytes()[:64]
    for number in range(50):
        store.put_bytes(f"many/{number:08x}.jdb", header)
    store.requests.clear()
    environment = open_environment([located(f"s3://{BUCKET}/many")])
    assert len(environment.files) == 50
    assert len(store.reads) == 50
    assert sum("continuation-token" in each.path for each in store.requests) >= 2


@pytest.mark.parametrize("name", ["a b", "ü?x", "a::b", "%41", "*", "[x]", "quote'\""])
def test_folders_with_hostile_names(store: S3Store, name: str) -> None:
    store.put(BASIC, f"hostile/{name}/env")
    found = [each for each in located(f"s3://{BUCKET}/hostile").iterdir() if each.name == name]
    assert open_environment([found[0] / "env"]).size == sum(
        path.stat().st_size for path in BASIC.glob("*.jdb")
    )


@pytest.mark.parametrize("fault", ["503", "cut"])
def test_a_failure_that_passes_changes_nothing(store: S3Store, fault: str) -> None:
    uri = store.put(BASIC, f"passing-{fault}")
    expected = verified(uri)
    store.fail(fault, 2)
    assert verified(uri) == expected


@pytest.mark.parametrize(
    ("fault", "text"),
    [("503", "the store failed"), ("cut", "try again later"), ("403", "denies access")],
)
def test_a_failure_that_stays_ends_the_command(store: S3Store, fault: str, text: str) -> None:
    uri = store.put(BASIC, f"staying-{fault}")
    environment = open_environment([located(uri)])
    store.fail(fault, 10_000)
    with pytest.raises(InputError, match=text):
        list(verify(environment, Scanner(wide=True), Totals(environment.name)))


def test_a_store_that_does_not_answer(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"config_kwargs": {"read_timeout": 0.5, "retries": {"max_attempts": 1}}}
    monkeypatch.setitem(remote_store._OPTIONS, "s3", options)
    uri = store.put(BASIC, "slow")
    environment = open_environment([located(uri)])
    store.fail("slow", 10_000)
    with pytest.raises(InputError, match="no answer from the store"):
        list(verify(environment, Scanner(wide=True), Totals(environment.name)))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda data: data + b"more", "replaced"),
        (lambda data: bytes(len(data)), "replaced"),
        (lambda data: data[:100], "shrank"),
        (lambda data: b"", "shrank"),
        (None, "removed"),
    ],
    ids=["grown", "replaced", "short", "empty", "gone"],
)
def test_a_file_that_changes_after_it_was_opened(
    store: S3Store, change: Callable[[bytes], bytes] | None, text: str
) -> None:
    uri = store.put(BASIC, f"changing-{text}")
    environment = open_environment([located(uri)])
    name = f"changing-{text}/{environment.files[0].path.name}"
    if change is None:
        store.remove(name)
    else:
        store.put_bytes(name, change(environment_bytes()))
    with pytest.raises(StoppedError, match=text):
        list(verify(environment, Scanner(wide=True), Totals(environment.name)))


def environment_bytes() -> bytes:
    return (BASIC / "00000000.jdb").read_bytes()


@pytest.mark.parametrize(
    ("uri", "code", "text"),
    [
        ("s3://no-such-bucket/env", 4, "no such file or directory"),
        (f"s3://{BUCKET}/no-such-folder", 4, "no such file or directory"),
        ("nonsense://a/b", 4, "no file system is known for nonsense://"),
        ("gs://bucket/env", 4, "pip install 'je-tools[gcs]'"),
        ("s3://key:pass-word@logs/env", 2, "s3://***@logs/env"),
        ("s3://key:se/pass-word@logs/env", 2, "s3://***@logs/env"),
        ("s3://key:se/pass-word", 2, "s3://***:"),
        ("s3://key:12/pass-word@logs/env", 2, "s3://***@logs/env"),
        ("s3://key:se pass-word@logs/env", 2, "s3://***@logs/env"),
        ("s3://key:a@pass-word@logs/env", 2, "s3://***@logs/env"),
        ("s3:///key:pass-word@logs/env", 2, "s3://***@logs/env"),
        ("sftp://a@corp:pass-word@host/env", 2, "sftp://***@host/env"),
        ("https://pass-word@host/env", 2, "https://***@host/env"),
        ("simplecache::s3://key:pass-word@logs/env", 2, "simplecache::s3://***@logs/env"),
        ("zip://a.zip::s3://key:pass-word@logs/env", 2, "zip://***@logs/env"),
        ("simplecache::zip://*::s3://pass-word@logs/env", 2, "simplecache::zip://***@logs/env"),
        ("simplecache::s3://logs/env", 2, "name the URI of the store alone"),
        ("zip://a/b.zip::s3://key:pass-word@logs/env", 2, "zip://***@logs/env"),
        ("zip://a/b.zip::s3://logs/env", 2, "name the URI of the store alone"),
        (
            "zip://*::simplecache::s3://host:90/env",
            2,
            "::s3://host:90/env: a chain of file systems",
        ),
        ("zip://a.zip::s3://key:pass-word/logs", 2, "zip://***: a password"),
        ("zip://a@b.zip::s3:///key:pass-word/logs", 2, "zip://***: a password"),
        ("s3://key:pass-word/logs::zip://a.zip", 2, "s3://***: a password"),
        ("zip://a::simplecache::s3://key:pass-word", 2, "zip://***: a password"),
        ("s3://logs/env?token=pass-word", 2, "s3://logs/env?***"),
        ("s3://logs/env?token=a pass-word", 2, "s3://logs/env?***"),
        ("s3://", 2, "expected s3://BUCKET/FOLDER"),
        ("s3://logs/../x", 2, "dotted parts"),
        ("file://other/x", 2, "a file of this host"),
    ],
)
def test_uris_that_cannot_be_read(store: S3Store, uri: str, code: int, text: str) -> None:
    ended = je_tools("verify", uri)
    assert ended.code == code
    assert text in " ".join(ended.err.split())
    assert "pass-word" not in ended.err


@pytest.mark.parametrize(
    "uri",
    [
        "s3://logs/a@b/env",
        "s3://logs/a:b@c",
        "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/env",
        "abfs://backups@account.dfs.core.windows.net/a@b",
        "hdfs://user@namenode:8020/a@b",
        "hdfs:///a:b@c",
        "https://[::1]:443/env",
        "memory://a:1/env",
    ],
)
def test_names_with_colons_and_at_signs_are_no_credentials(uri: str) -> None:
    assert str(located(uri)) in (uri, uri.replace(":///", "://default/"))


def test_credentials_in_the_texts_of_errors_are_masked() -> None:
    text = 'Could not connect to "http://a:b/c@host:90/x?y=z": see https://host:443/a.'
    assert masked_text(text) == (
        'Could not connect to "http://***@host:90/x?***": see https://host:443/a.'
    )


@pytest.mark.parametrize(
    "words",
    [
        ("recover",),
        ("space",),
        ("dump", "--follow"),
        ("salvage", "--output", "x"),
    ],
    ids=" ".join,
)
def test_what_needs_local_files_refuses_uris(words: tuple[str, ...]) -> None:
    ended = je_tools(*words, f"s3://{BUCKET}/env")
    assert ended.code == 2
    assert "this host" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("verify", BASIC, "--output"),
        ("audit", "run", BASIC, "--engine", "local", "--output"),
        ("export", BASIC, "--all", "--tmp"),
    ],
    ids=lambda words: words[0],
)
def test_nothing_is_written_to_a_uri(words: tuple[str, ...]) -> None:
    ended = je_tools(*words, f"s3://key:pass-word@{BUCKET}/out")
    assert ended.code == 2
    assert "pass-word" not in ended.err
    assert je_tools(*words, f"s3://{BUCKET}/out").code == 2


def test_a_file_uri_is_a_local_path(tmp_path: Path) -> None:
    home = tmp_path / "a b"
    home.symlink_to(BASIC)
    ended = je_tools("summary", f"file://{tmp_path}/a%20b")
    assert ended.out == je_tools("summary", home).out
    assert ended.code == 0


def test_stores_are_loaded_only_for_uris() -> None:
    code = (
        "import sys; from je_tools.commands.start import main\n"
        f"sys.argv = ['je-tools', 'verify', {str(BASIC)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'fsspec' not in sys.modules and 'asyncio' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_store_that_gives_neither_tag_nor_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing shows whether a file is still the same: audits keep nothing, `verify` refuses it."""
    name, data = "00000000.jdb", environment_bytes()
    fsspec.filesystem("memory").pipe_file(f"/unmarked/{name}", data)
    home = located("memory://unmarked")
    monkeypatch.setattr(remote_store, "_TIMES", ())
    assert mark_of(home / name, len(data), is_whole=True).changed_ns is None
    (found,) = find_fleet([home]).environments
    assert signature_of(found, KnownFiles(tmp_path).of(home), "") is None
    status = remote_store.status_of(str(home / name))
    assert not status.is_same(status)
    ended = je_tools("verify", str(home))
    assert ended.code == 5
    assert "neither tag nor time" in ended.err


@pytest.mark.parametrize("words", [("run", "--output", "out"), ("find", "--match", "nobody")])
@pytest.mark.parametrize(
    ("root", "text"),
    [
        ("gs://bucket/env", "pip install 'je-tools[gcs]'"),
        (f"s3://{BUCKET}/env", "the store denies access (403)"),
    ],
)
def test_roots_whose_store_does_not_answer(
    words: tuple[str, ...], root: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(uri: str) -> None:
        raise PermissionError if uri.startswith("s3") else ImportError

    monkeypatch.setattr(remote_store, "_file_system", deny)
    monkeypatch.chdir(tmp_path)
    ended = je_tools("audit", words[0], root, *words[1:], "--engine", "local")
    assert ended.code == 4
    assert text in " ".join(ended.err.split())


def test_hidden_names_match_only_patterns_that_say_so() -> None:
    for name in ("a", ".snapshot"):
        fsspec.filesystem("memory").pipe_file(f"/hidden/{name}/00000000.jdb", environment_bytes())
    found = {pattern: LogPlaces((f"memory://hidden/{pattern}",)).roots() for pattern in ("*", ".*")}
    assert {key: [path.name for path in paths] for key, paths in found.items()} == {
        "*": ["a"],
        ".*": [".snapshot"],
    }
