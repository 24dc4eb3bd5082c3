"""What every test may use: the shared tables of cases (skipped where they aren't there) and one event loop backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def load_vectors(name: str) -> Any:
    path = SHARED / "vectors" / name
    if not path.exists():
        pytest.skip(f"the shared table of cases {name} is not beside this checkout")
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def shared_vectors() -> Callable[[str], Any]:
    """`shared_vectors("quantity.json")`: the parsed table."""
    return load_vectors


@pytest.fixture(scope="session")
def golden() -> list[dict[str, Any]]:
    """The recorded exchanges of the Go sample server."""
    path = SHARED / "golden" / "wardle.jsonl"
    if not path.exists():
        pytest.skip("the recorded exchanges are not beside this checkout")
    return [json.loads(line) for line in path.read_text().splitlines()]
