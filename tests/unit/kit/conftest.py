"""A server to test the test kit with, and pytest runs of its users."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from oarlock import APIServer, Context, Model, Resource, StoredCollection

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = '''\
from oarlock import APIServer, Model, Resource


class ThingSpec(Model):
    """What is wanted."""

    size: int = 1


class Thing(Resource, group="test.example.com", version="v1"):
    """A thing."""

    spec: ThingSpec = ThingSpec()


THINGS = "/apis/test.example.com/v1/namespaces/default/things"
server = APIServer(serve=[Thing], name="things")
'''

RunPytest = Callable[..., "subprocess.CompletedProcess[str]"]


class ThingSpec(Model):
    """What is wanted."""

    size: int = 1
    made_at: float = 0.0


class Thing(Resource, group="test.example.com", version="v1"):
    """A thing."""

    spec: ThingSpec = ThingSpec()


class Things(StoredCollection[Thing]):
    def prepare(self, new: Thing, old: Thing | None, ctx: Context) -> None:
        new.spec.made_at = ctx.clock.now()


@pytest.fixture
def app() -> APIServer:
    return APIServer(serve=[Things], name="things")


@pytest.fixture
def run_pytest(tmp_path: Path) -> RunPytest:
    """Write `files`, whose names lack ``.py``, and run pytest on them with the kit's plugin and `others`."""

    def run(*arguments: str, others: Sequence[str] = (), **files: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "things.py").write_text(PROGRAM)
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
        plugins = [part for name in ("oarlock.testing.plugin", "no:cacheprovider", *others) for part in ("-p", name)]
        command = [sys.executable, "-m", "pytest", "-q", "-rA", *plugins, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    return run
