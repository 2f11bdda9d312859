"""A headless Chromium, spoken to by the DevTools protocol over a pipe: no driver, no port, no network."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

SECONDS = 120  # for one answer; a loaded machine starts slowly


def find_browser() -> Optional[str]:
    """A Chromium that runs here. Ubuntu's package is a stub that asks for a snap."""
    for name in ("chromium", "google-chrome"):
        program = shutil.which(name)
        if program and not subprocess.run([program, "--version"], capture_output=True).returncode:
            return program
    return None


class Browser:
    """One page. `events` collects what the browser tells by itself."""

    def __init__(self, program: str) -> None:
        self.events: List[Dict] = []
        self._number = 0
        self._received = b""
        self._session: Optional[str] = None
        self._home = tempfile.mkdtemp(prefix="hdfnet-browser-")
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        line = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--remote-debugging-pipe", f"--user-data-dir={self._home}", "about:blank",
        ]  # fmt: skip
        # The browser reads from descriptor 3 and writes to 4.
        redirect = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, "bash", *line],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._home},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        os.close(self._to)
        os.close(self._from)
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> Dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, file: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=file.as_uri())
        while not self.told("Page.loadEventFired"):
            self._receive()

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def told(self, event: str) -> List[Dict]:
        return [item["params"] for item in self.events if item["method"] == event]

    def _receive(self) -> Dict:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._from, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._received += part
        text, _, self._received = self._received.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message
