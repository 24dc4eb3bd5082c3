"""Logs are followed, commands run in a terminal, and actions are called by a form, of any kind that has them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, Page

from oarlock.server.config import ServerConfig
from oarlock.testing.thread import ServerThread

HELLO = Path(__file__).resolve().parents[2] / "examples" / "hello" / "src"
FOOS = "/apis/hello.zeng.dev/v2/namespaces/default/foos"


@pytest.fixture(scope="module")
def hello() -> Iterator[ServerThread]:
    """The server of the example, which has no kind of Kubernetes' own, with one foo."""
    sys.path.insert(0, str(HELLO))
    try:
        from hello.server import server  # noqa: PLC0415 (found once the folder is on the path)
    finally:
        sys.path.remove(str(HELLO))
    with ServerThread(server, config=ServerConfig(storage="memory://", console=True)) as running:
        spec = {"image": "busybox", "config": {"msg": "ahoy", "msg1": "there"}}
        made = running.client().post(FOOS, {"metadata": {"name": "a"}, "spec": spec})
        assert made.status == 201, made.json
        yield running


@pytest.fixture
def foo(browser: Browser, hello: ServerThread) -> Iterator[Page]:
    """The page of the foo."""
    with browser.page(f"{hello.url}/console/") as page:
        page.fill("#token", hello.token)
        page.click("button[type=submit]")
        page.wait_for(".bar .home")
        page.run("location.hash = '#/object/hello.zeng.dev/v2/foos/default/a'")
        page.wait_for("h1", "a")
        yield page
        assert page.problems == []


def test_a_log_is_followed(foo: Page) -> None:
    foo.click(".tabs a", "Log")
    foo.wait_for(".log", "a: ahoy\na: ahoy")
    foo.fill("[aria-label='Only lines with']", "nothing has this")
    foo.wait_for(".logs [role=status]", "0 lines")


def test_a_command_runs_in_a_terminal(foo: Page) -> None:
    foo.click(".tabs a", "Terminal")
    foo.fill(".command", "cat")
    foo.click(".terminal button", "Run")
    foo.wait_for(".terminal [role=status]", "connected")
    foo.run("document.querySelector('.xterm-helper-textarea').focus()")
    foo.paste("document.querySelector('.xterm-helper-textarea')", "\x1b[38;2;10;200;30mgreen\x1b[0m ")
    foo.press(*"fleet")
    foo.until("document.querySelector('.xterm-rows')?.textContent.includes('fleet')")
    colour = "[...document.querySelectorAll('.xterm-rows span')].find((one) => one.textContent.includes('green'))"
    foo.until(f"getComputedStyle({colour}).color === 'rgb(10, 200, 30)'")


def test_how_a_command_ended_is_said(foo: Page) -> None:
    foo.click(".tabs a", "Terminal")
    foo.fill(".command", "exit 3")
    foo.click(".terminal button", "Run")
    foo.wait_for(".terminal [role=status]", "ended: command terminated with non-zero exit code")


def test_an_action_is_called_by_a_form_of_its_schema(foo: Page) -> None:
    foo.click(".tabs a", "Actions")
    foo.wait_for(".act legend", "spec")
    foo.fill(".act fieldset input[name]", ".spec.image")
    foo.click(".act .primary", "Call base64")
    foo.wait_for(".act .answer", "output: ImJ1c3lib3gi")
    foo.fill(".act fieldset input[name]", ".no.such")
    foo.click(".act .primary", "Call base64")
    foo.wait_for(".act .problem", "undefined field path .no.such")
