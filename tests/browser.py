"""A headless Chromium for tests of pages: the DevTools protocol over a pair of pipes, so that no package is needed.

A test takes the fixture `tab`, and is skipped where there is no Chromium:

    def test_a_step(tab, tmp_path):
        tab.show(html, tmp_path)
        tab.press("ArrowRight")
        assert tab.value("document.getElementById('time').value") == "1"
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 60.0

KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40, "Home": 36, "End": 35, "PageUp": 33,
        "PageDown": 34, "Tab": 9}  # fmt: skip


def missing() -> str:
    """Why pages can't be loaded here; "" where they can."""
    return "" if _executable() else f"no Chromium: none of {', '.join(NAMES)} is in PATH"


def _executable() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


# Chromium reads commands from descriptor 3 and answers on 4.
_START = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Tab:
    """One page. ``problems``: uncaught exceptions and errors that its scripts reported."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._buffer = b""
        self._session = ""
        self._number = 0
        self.problems: list[str] = []
        (target,) = (t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command and its result. Raises RuntimeError for one that fails."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(end - time.monotonic(), 0))
            more = os.read(self._read, 1 << 16) if ready else b""
            if not more:
                raise RuntimeError("Chromium ended" if ready else f"Chromium did not answer within {SECONDS:.0f} s")
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        about = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(about["exceptionDetails"]))
        if event.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.problems.append(about["entry"]["text"])

    def load(self, url: str) -> None:
        self.send("Page.navigate", url="about:blank")  # else a change of the fragment alone loads nothing
        self.send("Page.navigate", url=url)
        self.wait("document.readyState == 'complete' && location.href != 'about:blank'")

    def show(self, html: str, folder: Path, fragment: str = "") -> None:
        """Load a page, written into ``folder``. Its scripts must report nothing."""
        path = folder / "page.html"
        path.write_text(html, encoding="utf-8")
        self.problems.clear()
        self.resize(1200)
        self.load(path.as_uri() + fragment)
        assert self.problems == []

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true. Raises RuntimeError where it does not become so."""
        end = time.monotonic() + SECONDS
        while not self.value(condition):
            if time.monotonic() > end:
                raise RuntimeError(f"within {SECONDS:.0f} s it was never so that {condition}")
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives, as JSON would. Raises RuntimeError for an exception."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def press(self, key: str, times: int = 1) -> None:
        """Press a key as a user does: the browser decides what has the focus."""
        known = {"key": key, "windowsVirtualKeyCode": KEYS.get(key) or ord(key.upper())}
        known |= {"code": key} if key in KEYS else {"text": key}
        for _ in range(times):
            self.send("Input.dispatchKeyEvent", type="keyDown", **known)
            self.send("Input.dispatchKeyEvent", type="keyUp", **known)

    def move_to(self, x: float, y: float) -> None:
        """Move the pointer to a place of the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def resize(self, width: int, height: int = 900, dark: bool = False) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def start() -> Iterator[Tab]:
    """A browser with an empty page."""
    executable = _executable()
    assert executable, missing()
    theirs, write = os.pipe()
    read, their_end = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]  # fmt: skip
        command = [sys.executable, "-IS", "-c", _START, str(theirs), str(their_end), executable, *options]
        process = subprocess.Popen(command, pass_fds=(theirs, their_end), stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(their_end)
        try:
            yield Tab(read, write)
        finally:
            process.terminate()
            process.wait(SECONDS)
            os.close(read)
            os.close(write)
