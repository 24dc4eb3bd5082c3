"""A control plane with a console, its people, and what they look at. See also: `browser`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme
from browser import Page

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.server.config import ServerConfig
from oarlock.testing.client import HTTPClient
from oarlock.testing.thread import ServerThread

__all__ = ["EVIL", "Plane", "plane_with_console", "unreadable"]

PEOPLE = {"admin": ("admin", "system:masters"), "viewer": ("viewer", "viewers"), "stranger": ("stranger", "strangers")}
EVIL = '<img src=x onerror="document.title=\'pwned\'"><script>document.title="pwned"</script>'
"""Text that would be markup if anything showed it as that."""


class Plane:
    """The server, `tokens` by person, and short ways to write objects."""

    def __init__(self, running: ServerThread, tokens: dict[str, str], authority: trustme.CA) -> None:
        self.running = running
        self.tokens = tokens
        self._authority = authority
        self.console = f"{running.url}/console/"

    def client(self, person: str = "admin") -> HTTPClient:
        return self.running.client(self.tokens[person])

    def certificate(self, person: str) -> tuple[bytes, bytes]:
        """A client certificate that the server trusts, and its key, in PEM."""
        user, group = PEOPLE[person]
        made = self._authority.issue_cert(common_name=user, organization_name=group)
        return made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes()

    def log_in(self, page: Page, person: str = "admin") -> None:
        page.fill("#token", self.tokens[person])
        page.click("button[type=submit]")
        page.wait_for(".bar .home")

    def open(self, page: Page, place: str) -> None:
        """Go to what is after ``#`` in the address; the page isn't loaded again, so the login stays."""
        page.run(f"location.hash = {place!r}")

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.client().post(path, body)
        assert answer.status == 201, answer.json
        created: dict[str, Any] = answer.json
        return created

    def namespace(self) -> str:
        """A new namespace, for one test."""
        name = f"test-{secrets.token_hex(4)}"
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the server is as it should be."""
        ends = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < ends
            time.sleep(0.02)

    def config_map(self, namespace: str, name: str, data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
        body = {"metadata": {"name": name, **meta}, "data": data or {}}
        return self.create(f"/api/v1/namespaces/{namespace}/configmaps", body)


@contextmanager
def plane_with_console(folder: Path) -> Iterator[Plane]:
    """A control plane in a thread, with a token for each of `PEOPLE`."""
    tokens = {person: secrets.token_urlsafe(24) for person in PEOPLE}
    lines = [f'{tokens[name]},{user},{name},"{group}"' for name, (user, group) in PEOPLE.items()]
    file = folder / "people.csv"
    file.write_text("\n".join(lines) + "\n")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "clients.crt")
    credentials = {"token_auth_file": file, "client_ca_file": folder / "clients.crt"}
    config = ServerConfig(
        storage="memory://", authorization_mode=("RBAC",), console=True, openapi_ui=True, **credentials
    )
    with ServerThread(ControlPlane(), folder=folder, config=for_control_plane(config)) as running:
        yield Plane(running, tokens, authority)


UNREADABLE = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement ?? one.getRootNode().host) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("#app *")) {
    const own = [...element.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!own || !element.getClientRects().length || element.closest(":disabled")) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${element.tagName}.${element.className}: ${contrast.toFixed(2)}`);
  }
  return [...new Set(found)];
})()"""


def unreadable(page: Page) -> list[str]:
    """The elements whose text has too little contrast with what is behind it."""
    found: list[str] = page.run(UNREADABLE)
    return found
