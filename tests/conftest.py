"""What every test may use: the shared tables of cases and the recorded exchanges, and one event loop backend.

Tables and recordings lie beside the checkout. Where they don't, one test for each says so; what they promise is tested
with cases of our own in the files ``test_*_by_convention.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from leaving_out import leave_out, tables_read_by

# The same examples each time; machines are slow at times, and that is no failure.
settings.register_profile("the same", derandomize=True, deadline=None)
settings.load_profile("the same")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
VECTORS = SHARED / "vectors"
GOLDEN = SHARED / "golden" / "wardle.jsonl"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items, _missing)


def _missing(item: pytest.Item) -> str | None:
    fixtures = getattr(item, "fixturenames", ())
    if "golden" in fixtures and not GOLDEN.exists():
        return "the recorded exchanges are not beside this checkout"
    if "shared_vectors" in fixtures and not VECTORS.exists():
        return f"the shared table of cases {tables_read_by(item)} is not beside this checkout"
    return None


@pytest.fixture(scope="session")
def shared_vectors() -> Callable[[str], Any]:
    """`shared_vectors("quantity.json")`: the parsed table."""
    return lambda name: json.loads((VECTORS / name).read_text())


@pytest.fixture(scope="session")
def golden() -> list[dict[str, Any]]:
    """The recorded exchanges of the Go sample server."""
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]
