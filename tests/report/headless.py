"""A headless Chromium, spoken to over its debugging pipe: no library, no driver, no port.

    with Browser(find()) as browser:
        page = browser.open("file:///…/report.html")
        page.value("document.title")
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE_S = float(os.environ.get("PATIENCE_S", "120"))


def find():
    """The browser that is used, or None."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="ckineto-browser-", ignore_cleanup_errors=True)
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe",
             "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(3, 4), preexec_fn=lambda: _become(theirs_in, theirs_out))
        os.close(theirs_in)
        os.close(theirs_out)
        self.ours_in, self.ours_out = ours_in, ours_out
        self.rest = b""
        self.last_id = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.ours_out)  # which ends it
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.ours_in)
        self.profile.cleanup()

    def open(self, url):
        return Page(self, url)

    def ask(self, method, session=None, **params):
        """Says METHOD and waits for the answer; what else is heard goes to `events`."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.ours_out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self._next(until)
            if answer.get("id") == self.last_id:
                assert "error" not in answer, f"{method}: {answer}"
                return answer["result"]
            self.events.append(answer)

    def _next(self, until):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.ours_in], [], [], max(0, until - time.monotonic()))
            part = os.read(self.ours_in, 1 << 20) if ready else b""
            assert part, "the browser died" if ready else "the browser does not answer"
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)


def _become(theirs_in, theirs_out):
    """In the child: the numbers that the browser expects, whatever the pipes have."""
    theirs_in, theirs_out = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out))
    os.dup2(theirs_in, 3)
    os.dup2(theirs_out, 4)


class Page:
    def __init__(self, browser, url):
        self.browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.ask(f"{domain}.enable", self.session)
        self.go_to(url)

    def go_to(self, url):
        self.browser.ask("Page.navigate", self.session, url=url)

    def value(self, expression):
        """What EXPRESSION of the page's language is, once it is there."""
        answer = self.browser.ask("Runtime.evaluate", self.session, expression=expression, awaitPromise=True,
                                  returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression):
        """EXPRESSION is a truth value, not a node: nodes have no value here."""
        until = time.monotonic() + PATIENCE_S
        while not self.value(expression):
            assert time.monotonic() < until, f"never true: {expression}"
            time.sleep(0.05)

    def resize(self, width, height):
        self.browser.ask("Emulation.setDeviceMetricsOverride", self.session, width=width, height=height,
                         deviceScaleFactor=1, mobile=False)

    def set_media(self, scheme="light", medium=""):
        """The colours that the reader prefers; medium "print": as on paper."""
        self.browser.ask("Emulation.setEmulatedMedia", self.session, media=medium,
                         features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key, shift=False):
        """A key of the keyboard, with the browser's own reaction to it, such as moving the focus."""
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        name = " " if key == "Space" else key
        code = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
                "ArrowDown": 40}.get(key, ord(key[0].upper()))
        common = {"key": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.browser.ask("Input.dispatchKeyEvent", self.session, type="keyDown" if text else "rawKeyDown", text=text,
                         **common)
        self.browser.ask("Input.dispatchKeyEvent", self.session, type="keyUp", **common)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.ask("Input.dispatchMouseEvent", self.session, type=kind, x=x, y=y, button="left", clickCount=1)

    def save_picture(self, path):
        """What is in view, as PNG."""
        data = self.browser.ask("Page.captureScreenshot", self.session, format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.browser.ask("Page.close", self.session)

    def _heard(self, *methods):
        return [e["params"] for e in self.browser.events
                if e.get("sessionId") == self.session and e["method"] in methods]

    def said(self):
        """What it wrote to its console, threw, or asked in a dialog."""
        return self._heard("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded",
                           "Page.javascriptDialogOpening")

    def asked_for(self):
        """Addresses that it loaded."""
        return [e["request"]["url"] for e in self._heard("Network.requestWillBeSent")]
