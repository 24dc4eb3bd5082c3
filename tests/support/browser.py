"""Chromium, driven through the DevTools protocol: pages as people see them.

    with Browser() as browser, browser.page("https://127.0.0.1:6443/console/") as page:
        page.fill("#token", token)
        page.click("button[type=submit]")
        page.wait_for("main h1")

What is waited for is a state of the page, and a page that doesn't reach it fails with a picture of it and its errors.
See also: ``tests/console``.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import websocket
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import NoEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

__all__ = ["CHROMIUM", "KEEPS_CERTIFICATES", "Browser", "Page"]

KEEPS_CERTIFICATES = shutil.which("certutil") is not None and shutil.which("pk12util") is not None
"""Whether a browser can be given a certificate: the tools of Debian's libnss3-tools are here."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DEADLINE_S = 60.0
"""How long a page may take to be as it should, on a machine that is busy."""

OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--ignore-certificate-errors",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)

WAIT = """new Promise((resolve, reject) => {
  const test = () => { try { return (%s); } catch { return undefined; } };
  const end = setTimeout(() => { clearInterval(timer); resolve(null); }, %d);
  const look = () => {
    const value = test();
    if (!value) return;
    clearTimeout(end);
    clearInterval(timer);
    resolve(value instanceof Node ? true : value);
  };
  const timer = setInterval(look, 25);
  look();
})"""


class Browser:
    """A browser that keeps nothing. `flags` are further options of its command line.

    `certificate` is a client certificate and its key, in PEM. It is shown to every server that asks for one.
    """

    def __init__(self, *flags: str, certificate: tuple[bytes, bytes] | None = None) -> None:
        assert CHROMIUM is not None
        self._folder = Path(tempfile.mkdtemp(prefix="oarlock-browser-"))
        if certificate is not None:
            _keep_certificate(self._folder, *certificate)
        environment = {**os.environ, "HOME": str(self._folder)}
        command = [CHROMIUM, *OPTIONS, *flags, f"--user-data-dir={self._folder / 'profile'}", "about:blank"]
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._address = self._find_address()

    def _find_address(self) -> str:
        """Where the browser listens, which it writes into its profile."""
        port = self._folder / "profile" / "DevToolsActivePort"
        ends = time.monotonic() + DEADLINE_S
        while time.monotonic() < ends:
            if self._process.poll() is not None:
                raise RuntimeError(f"chromium ended with {self._process.returncode}")
            lines = port.read_text().splitlines() if port.exists() else []
            if len(lines) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            time.sleep(0.05)
        raise TimeoutError("chromium doesn't listen")

    @contextmanager
    def page(self, url: str, *, width: int = 1280, height: int = 800) -> Iterator[Page]:
        """A page of a profile of its own, without cookies and certificates of others."""
        connection = _Connection(self._address)
        try:
            context = connection.call("Target.createBrowserContext")["browserContextId"]
            target = connection.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
            session = connection.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            page = Page(connection, session)
            page.show(width, height)
            page.open(url)
            yield page
            connection.call("Target.disposeBrowserContext", browserContextId=context)
        finally:
            connection.close()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _keep_certificate(home: Path, certificate: bytes, key: bytes) -> None:
    """Put it where the browser of this home looks, and choose it for every address."""
    store = home / ".pki" / "nssdb"
    store.mkdir(parents=True)
    one = x509.load_pem_x509_certificate(certificate)
    private = load_pem_private_key(key, None)
    assert isinstance(private, EllipticCurvePrivateKey | RSAPrivateKey)
    packed = home / "client.p12"
    packed.write_bytes(serialize_key_and_certificates(b"client", private, one, None, NoEncryption()))
    for command in (("certutil", "-N", "--empty-password"), ("pk12util", "-i", str(packed), "-W", "")):
        subprocess.run([*command, "-d", f"sql:{store}"], check=True, capture_output=True, timeout=DEADLINE_S)
    chosen = {"*,*": {"setting": {"filters": [{}]}}}
    preferences = {"profile": {"content_settings": {"exceptions": {"auto_select_certificate": chosen}}}}
    profile = home / "profile" / "Default"
    profile.mkdir(parents=True)
    (profile / "Preferences").write_text(json.dumps(preferences))


class _Left(RuntimeError):
    """A script's page was left for another before it ended."""


LEFT = ("navigated or closed", "Cannot find context", "context was destroyed", "Cannot find default execution context")


class _Connection:
    """Calls and events of the protocol."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=DEADLINE_S * 2, suppress_origin=True)
        self._numbers = itertools.count(1)
        self.on_event: Callable[[str, dict[str, Any]], None] = lambda method, params: None

    def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        self._socket.send(json.dumps({**message, "sessionId": session} if session else message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == number:
                if "error" in answer:
                    said = f"{method}: {answer['error']}"
                    raise _Left(said) if any(one in said for one in LEFT) else RuntimeError(said)
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer:
                self.on_event(answer["method"], answer["params"])

    def close(self) -> None:
        self._socket.close()


KEYS = {
    "Enter": ("\r", 13),
    "Escape": ("", 27),
    "Tab": ("\t", 9),
    " ": (" ", 32),
    "ArrowDown": ("", 40),
    "ArrowUp": ("", 38),
    "Home": ("", 36),
    "End": ("", 35),
    "PageDown": ("", 34),
}


class Page:
    """What a person sees and does. `problems` are errors of scripts, and what the security policy refused."""

    def __init__(self, connection: _Connection, session: str) -> None:
        self._connection = connection
        self._session = session
        self.problems: list[str] = []
        connection.on_event = self._event
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        # A page without the focus gets no keys, and which of two has it depends on when the other closed.
        self._call("Emulation.setFocusEmulationEnabled", enabled=True)
        self._call("Page.bringToFront")

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._connection.call(method, self._session, **params)

    def _event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["source"] in ("security", "violation"):
            self.problems.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.problems.append(" ".join(str(one.get("value", one.get("description"))) for one in params["args"]))

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)

    def show(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, and whether the person wants it dark."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """The value of an expression, or of the promise it is."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description", script))
        return answer["result"].get("value")

    def until(self, condition: str, what: str = "") -> Any:
        """Wait until an expression is true: its value."""
        value = self._awaited(WAIT % (condition, DEADLINE_S * 1000))
        if not value:
            picture = Path(tempfile.mkdtemp(prefix="oarlock-page-")) / "page.png"
            self.picture(picture)
            raise AssertionError(f"{what or condition}: not so; see {picture}\n{self.text()}\n{self.problems}")
        return value

    def _awaited(self, script: str) -> Any:
        """The value of a script, in the next page too if this one is left meanwhile."""
        ends = time.monotonic() + DEADLINE_S
        while True:
            try:
                return self.run(script)
            except _Left:
                if time.monotonic() > ends:
                    raise

    def wait_for(self, selector: str, text: str = "") -> None:
        """Wait until something that can be seen is there, with this text in it."""
        wanted = json.dumps(text)
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        seen = "one.getClientRects().length && (one.innerText ?? one.value ?? '')"
        self.until(f"{found}.some((one) => ({seen}).includes({wanted}))", f"{selector} with {text!r}")

    def gone(self, selector: str) -> None:
        self.until(f"!document.querySelector({json.dumps(selector)})", f"no {selector}")

    def text(self, selector: str = "body") -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)"
        )
        return found

    def click(self, selector: str, text: str = "") -> None:
        """Press the first element that has this text, as soon as it can be pressed."""
        find = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find((one) => one.getClientRects().length"
            f" && !one.disabled && (one.innerText ?? '').includes({json.dumps(text)}))"
        )
        place = (
            f"(() => {{ const one = {find}; if (!one) return null; one.scrollIntoView({{block: 'center'}});"
            " const box = one.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        x, y = self.until(place, f"{selector} with {text!r} to press")
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, x: float, y: float) -> None:
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def fill(self, selector: str, text: str) -> None:
        """Replace what is in a field, and leave it."""
        self.until(f"!!document.querySelector({json.dumps(selector)})", selector)
        self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)}); one.focus(); one.select?.(); }})()"
        )
        self._call("Input.insertText", text=text)
        self.run(
            f"document.querySelector({json.dumps(selector)}).dispatchEvent(new Event('change', {{bubbles: true}}))"
        )

    def choose(self, selector: str, value: str) -> None:
        """Choose from a list."""
        options = f"[...document.querySelector({json.dumps(selector)}).options]"
        self.until(f"{options}.some((one) => one.value === {json.dumps(value)})")
        self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)}); one.value = {json.dumps(value)};"
            " one.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def type(self, text: str) -> None:
        """Write where the focus is."""
        self._call("Input.insertText", text=text)

    def paste(self, element: str, text: str) -> None:
        """Paste into what an expression says."""
        self.run(
            "(() => { const data = new DataTransfer();"
            f" data.setData('text/plain', {json.dumps(text)});"
            f" {element}.dispatchEvent(new ClipboardEvent('paste',"
            " {clipboardData: data, bubbles: true, cancelable: true})); })()"
        )

    def edit(self, text: str) -> None:
        """Replace what is in the editor, as pasting does."""
        content = "document.querySelector('.editor').shadowRoot.querySelector('.cm-content')"
        self.until(
            f"{content} && document.querySelector('.editor').dataset.readonly === 'false'", "an editor to write in"
        )
        self.run(f"{content}.focus()")
        for kind in ("rawKeyDown", "keyUp"):
            key = {"key": "a", "code": "KeyA", "windowsVirtualKeyCode": 65, "modifiers": 2, "commands": ["selectAll"]}
            self._call("Input.dispatchKeyEvent", type=kind, **key)
        self.paste(content, text)

    def editor(self) -> str:
        """What is in sight of the editor's text."""
        return str(self.run("document.querySelector('.editor').shadowRoot.querySelector('.cm-content').innerText"))

    def press(self, *keys: str) -> None:
        for key in keys:
            text, code = KEYS.get(key, (key, ord(key[0].upper())))
            name = {"key": key, "windowsVirtualKeyCode": code}
            self._call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **name)
            self._call("Input.dispatchKeyEvent", type="keyUp", **name)

    def picture(self, file: Path) -> Path:
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))
        return file
