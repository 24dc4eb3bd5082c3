"""The cluster that servers are behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from boats_behind_a_cluster import cluster_in

from oarlock.server.assembly.run import Running


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Running]:
    running = await cluster_in(tmp_path)
    try:
        yield running
    finally:
        await running.shut_down()
