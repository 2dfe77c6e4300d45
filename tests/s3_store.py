"""An S3-compatible server on loopback, behind a proxy that counts requests and makes them fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
from fsspec.config import conf
from moto.server import ThreadedMotoServer

BUCKET = "logs"


class Request(NamedTuple):
    """A request that the proxy has answered; `size` is that of the body."""

    verb: str
    path: str
    size: int


class S3Store:
    """The server, seen through the proxy.

    Attributes:
        requests: requests so far.
        fault: what happens to the next `faults` reads of objects: "503", "403", "cut" or "slow".
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[Request] = []
        self.fault, self.faults = "", 0

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
        self.file_system().pipe_file(f"{BUCKET}/{name}", data)

    def file_system(self) -> Any:
        """Return the server's file system without the proxy, which takes no chunked bodies."""
        address = f"http://127.0.0.1:{self.port}"
        return fsspec.filesystem("s3", use_listings_cache=False, endpoint_url=address)

    def take_fault(self, verb: str, path: str) -> str:
        if verb != "GET" or "?" in path or not self.faults:
            return ""
        self.faults -= 1
        return self.fault


def _handler(store: S3Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = store.take_fault(self.command, self.path)
            if fault in ("503", "403"):
                self.send_response(int(fault))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if fault == "slow":
                time.sleep(3)
            inner = HTTPConnection("127.0.0.1", store.port)
            inner.request(self.command, self.path, body, dict(self.headers))
            answer = inner.getresponse()
            data = answer.read()
            store.requests.append(Request(self.command, self.path, len(data)))
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            with suppress(BrokenPipeError):
                self.wfile.write(data[: len(data) // 2] if fault == "cut" else data)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _forward

    return Handler


@contextmanager
def s3_store() -> Iterator[tuple[S3Store, dict[str, str]]]:
    """Run the server; yield it and the variables of the environment that lead to it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    store = S3Store(server.get_host_and_port()[1])
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store))
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    before = conf.get("s3")
    options = {
        "endpoint_url": f"http://127.0.0.1:{proxy.server_address[1]}",
        "key": "tester",
        "secret": "not-a-secret",
    }
    conf["s3"] = options
    try:
        store.file_system().mkdir(BUCKET)
        yield store, {f"FSSPEC_S3_{name.upper()}": value for name, value in options.items()}
    finally:
        conf.pop("s3")
        if before is not None:
            conf["s3"] = before
        proxy.shutdown()
        proxy.server_close()
        thread.join()
        server.stop()
