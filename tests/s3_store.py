"""An S3-compatible server on loopback that counts requests and can make them fail.

Its answers are moto's, which is called in this process: a server of moto's own would cost another
connection for each request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from fsspec.config import conf
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.test import Client, TestResponse

BUCKET = "logs"
_OWNER = {"Authorization": "AWS4-HMAC-SHA256 Credential=tester/20261120/us-east-1/s3/aws4_request"}
"""Headers of the owner, who may replace objects; moto compares no signatures."""


class Request(NamedTuple):
    """A request that the server has answered; `size` is that of the body."""

    verb: str
    path: str
    size: int


class S3Store:
    """The objects that the server holds, and the requests that it got.

    Attributes:
        requests: requests so far.
        fault: what happens to the next `faults` reads of objects: "503", "403", "cut" or "slow".
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.fault, self.faults = "", 0
        self._client = Client(DomainDispatcherApplication(create_backend_app))
        self._change("PUT", f"/{BUCKET}")

    @property
    def reads(self) -> list[Request]:
        """Reads of objects."""
        return [each for each in self.requests if each.verb == "GET" and "?" not in each.path]

    def fail(self, fault: str, times: int) -> None:
        self.fault, self.faults = fault, times

    def put(self, folder: Path, prefix: str) -> str:
        """Copy a folder into the bucket; return its URI."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put_bytes(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())
        self.requests.clear()
        return f"s3://{BUCKET}/{prefix}"

    def put_bytes(self, name: str, data: bytes) -> None:
        self._change("PUT", f"/{BUCKET}/{quote(name)}", data)

    def remove(self, name: str) -> None:
        self._change("DELETE", f"/{BUCKET}/{quote(name)}")

    def answer(self, verb: str, path: str, body: bytes, headers: Mapping[str, str]) -> TestResponse:
        """Return moto's answer."""
        return self._client.open(path, method=verb, data=body, headers=headers)

    def take_fault(self, verb: str, path: str) -> str:
        if verb != "GET" or "?" in path or not self.faults:
            return ""
        self.faults -= 1
        return self.fault

    def _change(self, verb: str, path: str, body: bytes = b"") -> None:
        answer = self.answer(verb, path, body, _OWNER)
        assert answer.status_code < 300, f"{verb} {path}: {answer.status}"


def _handler(store: S3Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # With HTTP/1.0, every request would open a connection and start a thread.
        protocol_version = "HTTP/1.1"
        # Headers and body are sent together; else the body would wait for an acknowledgement.
        wbufsize = -1

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = store.take_fault(self.command, self.path)
            if fault in ("503", "403"):
                self.send_response(int(fault))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if fault == "slow":
                time.sleep(3)
            answer = store.answer(self.command, self.path, body, dict(self.headers))
            data = answer.data
            store.requests.append(Request(self.command, self.path, len(data)))
            self.send_response(answer.status_code)
            for name, value in answer.headers:
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data[: len(data) // 2] if fault == "cut" else data)
            self.close_connection |= fault == "cut"

        do_GET = do_HEAD = _answer

        def handle(self) -> None:
            # A client may give up, or close a connection that it has kept.
            with suppress(ConnectionError):
                super().handle()

    return Handler


@contextmanager
def s3_store() -> Iterator[tuple[S3Store, dict[str, str]]]:
    """Run the server; yield it and the variables of the environment that lead to it."""
    store = S3Store()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    before = conf.get("s3")
    options = {
        "endpoint_url": f"http://127.0.0.1:{server.server_address[1]}",
        "key": "tester",
        "secret": "not-a-secret",
    }
    conf["s3"] = options
    try:
        yield store, {f"FSSPEC_S3_{name.upper()}": value for name, value in options.items()}
    finally:
        conf.pop("s3")
        if before is not None:
            conf["s3"] = before
        server.shutdown()
        server.server_close()
        thread.join()
