"""Fixtures of all tests: the server, and the objects of samples/."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from oarlock import APIServer

from hello.server import make_server

SAMPLES = Path(__file__).resolve().parents[1] / "samples"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def oarlock_app() -> APIServer:
    """The server that the fixture `client` asks, empty for each test."""
    return make_server()


@pytest.fixture
def sample() -> Callable[[str], dict[str, Any]]:
    """An object of samples/, by its file's name."""

    def read(name: str) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text())
        return found

    return read
