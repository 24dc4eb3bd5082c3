"""``store`` runs a test on a store of each kind, ``database_store`` on each that has a server of its own."""

from __future__ import annotations

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

import pytest

from stores import DATABASES, KINDS, Store, store_of

QUICK, QUICK_DATABASES = ("sqlite", "etcd"), ("postgresql", "etcd")
"""Kinds that differ most. With the others, faults wait for the thorough run; tests/contract has a few for each."""


def chosen(kinds: Iterable[str], quick: Container[str]) -> list[Any]:
    return [kind if kind in quick else pytest.param(kind, marks=pytest.mark.thorough) for kind in kinds]


@pytest.fixture(params=chosen(KINDS, QUICK))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, request, tmp_path)


@pytest.fixture(params=chosen(DATABASES, QUICK_DATABASES))
def database_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, request, tmp_path)
