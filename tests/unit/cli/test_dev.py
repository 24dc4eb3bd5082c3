"""``oarlock dev``: a server and its webhooks side by side, started again on a change, with what they keep."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oarlock.cli.developing import DevOptions, DevPart, SideBySide, control_plane_of, parts_of
from oarlock.cli.loading import load_controllers, load_server
from oarlock.server.options.option import ConfigError

STORE = "sqlite:///behind/oarlock.db"

CONTROLLED = """\
from oarlock import ControlPlane, Resource
from oarlock.controllers import Controller, ObjectKey


class Lamp(Resource, group="test.example.com", version="v1"):
    \"\"\"A lamp.\"\"\"


class Lamps(Controller[Lamp]):
    async def reconcile(self, key: ObjectKey) -> None: ...


server = ControlPlane(serve=[Lamp], controllers=[Lamps()])
"""


@pytest.fixture
def developing(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "oarlock", "dev", "things.py", "--secure-port=0", "--webhooks"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def _until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"it ended without saying {text!r}")


@pytest.mark.slow
def test_all_parts_start_again_with_what_they_keep(developing: subprocess.Popen[str], folder: Path) -> None:
    said = _until(developing, "kubectl ")
    assert said == "server   | kubectl --kubeconfig oarlock.kubeconfig get things.test.example.com\n"
    assert "reviews at /mutate" in _until(developing, "webhooks | things: serving at ")
    token = (folder / "oarlock.token").read_text()
    (folder / "things.py").write_text((folder / "things.py").read_text() + "\n")
    assert _until(developing, "has changed: restarting").startswith("dev      | ")
    _until(developing, "kubectl ")
    _until(developing, "webhooks | things: serving at ")
    assert (folder / "oarlock.token").read_text() == token
    developing.send_signal(signal.SIGTERM)
    assert developing.wait(60) == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "no_color", "said"),
    [
        (io.StringIO(), "", "server | ready\n"),
        (Terminal(), "1", "server | ready\n"),
        (Terminal(), "", "\x1b[36mserver |\x1b[0m ready\n"),
    ],
)
def test_names_of_parts_are_coloured_on_a_terminal_only_and_where_it_is_wanted(
    stream: io.StringIO, no_color: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    SideBySide(stream, [DevPart("server", ())]).show(0, "ready")
    assert stream.getvalue() == said


def test_controllers_of_a_file_run_beside_the_server() -> None:
    options = DevOptions(server="shop/server.py", controllers="shop/controllers.py", secure_port=0)
    assert parts_of(options) == [
        DevPart("server", ("serve", "shop/server.py", "--secure-port=0", "--write-kubeconfig=oarlock.kubeconfig")),
        DevPart("controllers", ("run", "shop/controllers.py", "--kubeconfig=oarlock.kubeconfig")),
    ]


def test_a_control_plane_runs_in_front_of_a_server_and_says_where_clients_connect() -> None:
    options = DevOptions(server="shop/server.py", behind=True, nodes=2, secure_port=6000)
    assert control_plane_of(options) == [
        DevPart(
            "up",
            (
                *("up", "--secure-port=6000", "--write-kubeconfig=oarlock.kubeconfig"),
                *("--nodes=2", "--disable=simulated-metrics"),
            ),
        )
    ]
    assert [part.words for part in parts_of(options)] == [
        ("serve", "shop/server.py", "--secure-port=7000", f"--storage={STORE}", "--behind=oarlock.kubeconfig")
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"nodes": 2}, "are those of a control plane"),
        ({"behind": True, "secure_port": 0}, "needs a port that is known"),
        ({"behind": True, "secure_port": 65_000}, "needs a port that is known"),
    ],
)
def test_options_of_a_control_plane_in_front_that_cannot_be(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        DevOptions(server="shop/server.py", **options)


def test_the_controllers_of_a_control_plane_are_those_it_was_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (folder / "lamps.py").write_text(CONTROLLED)
    try:
        assert [type(found).__name__ for found in load_controllers("lamps.py")] == ["Lamps"]
        assert len(load_server("lamps.py").controllers) > 1
    finally:
        sys.modules.pop("lamps", None)
