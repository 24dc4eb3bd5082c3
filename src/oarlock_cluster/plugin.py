"""The pytest plugin: the fixture `cluster`.

pytest loads it wherever oarlock is installed (entry point ``pytest11``), so it imports nothing of oarlock until the
fixture is used. ``-p no:oarlock_cluster.plugin`` keeps it out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from oarlock_cluster.testing import ClusterInMemory

__all__ = ["cluster", "pytest_configure"]

MARKER = "cluster"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(nodes=3, …): how the fixture `cluster` is made, see ClusterInMemory")


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[ClusterInMemory]:
    """A whole cluster in memory, on a virtual clock: three nodes, unless ``@pytest.mark.cluster(nodes=…)`` says more.

    It is for async tests, as anyio's plugin or pytest-asyncio's mode ``auto`` runs them.
    """
    from oarlock_cluster.testing import ClusterInMemory  # noqa: PLC0415 (pytest loads this module in every project)

    marker = request.node.get_closest_marker(MARKER)
    keywords = {} if marker is None else marker.kwargs
    async with ClusterInMemory(**keywords) as made:
        yield made
