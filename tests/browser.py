"""Drive headless Chromium over a pipe (the DevTools protocol), without a library.

`python -m tests.browser` prints the browser's path, or says what to install (exit 1).
"""

from __future__ import annotations

import base64
import fcntl
import functools
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_S = 600

Message = dict[str, Any]


class NoChromiumError(Exception):
    """No Chromium was found; the text says what to install."""


@functools.cache
def find_chromium() -> Path:
    """Return the path of the browser: CHROMIUM, or the first on PATH.

    Raises:
        NoChromiumError: there is none. It is not a reason to skip a test.
    """
    named = os.environ.get("CHROMIUM")
    for name in (named,) if named else NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    raise NoChromiumError(
        "the tests of the audit's page need Chromium (Debian, Ubuntu: apt-get install chromium; "
        f"or set CHROMIUM): not on PATH: {named or ', '.join(NAMES)}"
    )


class Browser:
    """A running Chromium with one page.

    Attributes:
        requests: URLs that the page requested, including its own.
        complaints: console messages, errors, and violations of the page's policy.
    """

    def __init__(self, profile: Path) -> None:
        options = [
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            # Chromium refuses to start as root with a sandbox; the page is our own.
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
        ]
        self._pid, self._in, self._out = _spawn([str(find_chromium()), *options, "about:blank"])
        self._held = b""
        self._last_id = 0
        self._session: str | None = None
        self._loaded: set[str] = set()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.size(1280, 1000)

    def close(self) -> None:
        """End the browser."""
        os.close(self._out)
        os.kill(self._pid, signal.SIGTERM)
        os.waitpid(self._pid, 0)
        os.close(self._in)

    def call(self, method: str, **given: Any) -> Message:
        """Send one command of the protocol, and return its result."""
        self._last_id += 1
        message: Message = {"id": self._last_id, "method": method, "params": given}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        number = self._last_id
        answer = self._until(lambda told: told if told.get("id") == number else None)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: Message = answer["result"]
        return result

    def open(self, page: Path, view: str = "") -> None:
        """Load a page again, with a view after its #."""
        self.requests.clear()
        self.complaints.clear()
        # A URL that differs only after # would not be loaded again.
        for url in ("about:blank", f"{page.as_uri()}#{view}"):
            loader = self.call("Page.navigate", url=url)["loaderId"]
            while loader not in self._loaded:
                self._until(lambda told: told)

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        told = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str, media: str = "screen") -> None:
        """Emulate the scheme `light` or `dark`, and the media `screen` or `print`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def picture(self, path: Path) -> None:
        """Save the whole page as PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def type(self, text: str) -> None:
        """Insert text at the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **({"text": text} if text and kind == "keyDown" else {}),
            )

    def click(self, selector: str) -> None:
        """Click on the middle of the first element that matches a selector."""
        find = f"document.querySelector({json.dumps(selector)})"
        x, y = self.evaluate(
            f"(() => {{ const e = {find}; e.scrollIntoView({{block: 'center'}});"
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2];"
            "})()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _until(self, wanted: Callable[[Message], Message | None]) -> Message:
        end = time.monotonic() + PATIENCE_S
        while True:
            while b"\0" in self._held:
                told, _, self._held = self._held.partition(b"\0")
                message = json.loads(told)
                self._note(message)
                answer = wanted(message)
                if answer is not None:
                    return answer
            left = end - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self._in], [], [], left)[0]:
                got = os.read(self._in, 1 << 20)
                assert got, "the browser has ended"
                self._held += got

    def _note(self, message: Message) -> None:
        method, given = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Page.lifecycleEvent" and given["name"] == "load":
            self._loaded.add(given["loaderId"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(given["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(given["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(given["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(given["message"])


def _spawn(command: list[str]) -> tuple[int, int, int]:
    """Start a program that reads commands from file descriptor 3 and answers to 4.

    Returns:
        its process id, and our ends: to read, to write.
    """
    ends = [os.pipe(), os.pipe()]
    # Numbers from 10 on, which the descriptors 3 and 4 cannot overwrite.
    its_in, its_out = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (ends[0][0], ends[1][1]))
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    actions = [*nothing, (os.POSIX_SPAWN_DUP2, its_in, 3), (os.POSIX_SPAWN_DUP2, its_out, 4)]
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    for number in (its_in, its_out, ends[0][0], ends[1][1]):
        os.close(number)
    return pid, ends[1][0], ends[0][1]


def main() -> int:
    """Print the browser's path, or what is missing."""
    try:
        print(find_chromium())
    except NoChromiumError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
