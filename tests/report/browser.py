"""Chromium, headless, over its DevTools pipe: no driver, no port and no package is needed."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
LATER = 0.5
"""Seconds in which a page could still ask for something."""


def find_browser() -> str | None:
    """The system's Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page in one browser; collects the addresses that the page asks for and what its script throws."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--no-first-run", f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe"]  # fmt: skip
        # Chromium reads commands from descriptor 3 and answers on 4
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", program, *options],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb", buffering=0), os.fdopen(ours_in, "rb")
        self._number, self._session, self._pending = 0, None, b""
        self.opened: set[str] = set()
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.send(f"{domain}.enable")

    def send(self, method, /, **parameters):
        """Ask for something and wait for the answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, path: Path, fragment: str = "") -> None:
        """Show a file, from scratch, and wait until it is loaded."""
        self.opened.add(path.resolve().as_uri())
        for address in ("about:blank", path.resolve().as_uri() + fragment):
            self.send("Page.navigate", url=address)
            while self.run("`${document.readyState} ${location}`") != f"complete {address}":
                time.sleep(0.02)

    def run(self, script: str):
        """The value of an expression in the page, of a promise once it is kept."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def asked(self) -> list[str]:
        """What else than the pages that were opened has been asked for, after a short wait; forgets it."""
        time.sleep(LATER)
        self.run("0")  # whose answer comes after all that happened before
        found = [address for address in self.requests if address not in self.opened and address[:5] != "data:"]
        self.requests.clear()
        return found

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def resize(self, width: int, height: int) -> None:
        """The size of the screen in CSS pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, kind: str = "", *, scheme: str = "light") -> None:
        """Show the page as on paper ("print") or on a screen, as for a reader who likes it light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media=kind, features=features)

    def close(self) -> None:
        """End the browser."""
        self._session = None
        self.send("Browser.close")
        self._process.wait(timeout=20)
        self._out.close()
        self._in.close()
        self._profile.cleanup()

    def _receive(self):
        while b"\0" not in self._pending:
            part = os.read(self._in.fileno(), 1 << 16)
            assert part, "the browser ended"
            self._pending += part
        text, self._pending = self._pending.split(b"\0", 1)
        message = json.loads(text)
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            case "Network.webSocketCreated":
                self.requests.append(message["params"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(message["params"]["exceptionDetails"]))
        return message
