"""``oarlock webhooks``: what is told of code that no webhook can carry out, and what can't be served so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oarlock.cli.webhook_commands import WebhookOptions, told, webhook_server
from oarlock.server.options.commands import read_options

HARBOUR = """\
from webhook_home import harbour

server = harbour()
"""


def options(*words: str) -> WebhookOptions:
    return read_options(WebhookOptions, words, "oarlock webhooks")


@pytest.fixture
def things(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the working directory, whose module isn't loaded yet."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for name in ("KUBECONFIG", "HOME"):
        monkeypatch.setenv(name, str(folder / "nothing"))
    monkeypatch.delitem(sys.modules, "things", raising=False)
    return folder / "things.py"


def test_a_server_of_webhooks_keeps_nothing_and_lets_a_cluster_ask_without_credentials(things: Path):
    server = webhook_server(options("things.py"))
    config = server.configured(options("things.py"))
    assert config.storage == "memory://"
    assert {"/mutate", "/validate", "/convert", "/readyz"} <= set(config.anonymous_paths)
    assert config.max_request_bytes > 2 * 3 * 1024 * 1024


def test_who_says_whom_to_let_in_is_obeyed(things: Path):
    given = options("things.py", "--anonymous-paths=/readyz", "--max-request-bytes=1Mi")
    config = webhook_server(given).configured(given)
    assert config.anonymous_paths == ("/readyz",)
    assert config.max_request_bytes == 1024 * 1024


def test_what_no_webhook_can_carry_out_is_told(things: Path):
    source = things.read_text().replace("Resource\n", "Resource, StoredCollection\n", 1)
    hook = "class Things(StoredCollection[Thing]):\n    def mark_deleted(self, new, ctx):\n        pass\n\n\n"
    things.write_text(source.replace("server =", f"{hook}server =").replace("[Thing],", "[Things],"))
    server = webhook_server(options("things.py"))
    [line] = told([resource.served for resource in server.resources])
    assert line == "Thing: not in a cluster: mark_deleted: no webhook may change an object that is being deleted"


@pytest.mark.parametrize(
    ("source", "flags", "why"),
    [
        (HARBOUR, (), "the code works with objects of a cluster"),
        (None, ("--controllers",), "the code works with objects of a cluster"),
        (None, ("--storage=sqlite:///x.db",), "the cluster keeps the objects"),
        ("from oarlock import APIServer\n\nserver = APIServer(serve=[])\n", (), "it stores no resource of its own"),
    ],
)
def test_what_cannot_be_served_is_refused_with_words(
    oarlock: Callable[..., Any], things: Path, source: str | None, flags: tuple[str, ...], why: str
):
    if source is not None:
        things.write_text(source)
    done = oarlock("webhooks", "things.py", *flags)
    assert done.returncode in (1, 2)
    assert why in done.stderr
