"""``store`` runs a test on a store of each kind, ``database_store`` on each that has a server of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from stores import DATABASES, KINDS, Store, store_of


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, request, tmp_path)


@pytest.fixture(params=DATABASES)
def database_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, request, tmp_path)
