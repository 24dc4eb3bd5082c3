"""Exchanges recorded with kube-apiserver about APIServices and their backends are answered by ``oarlock up``."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_plane import RecordedPlane, replay

ELSEWHERE = {"agg-disc-5", "agg-del-4"}
"""Those that docs/differences.md lists."""


@pytest.mark.slow
def test_what_is_answered_otherwise_is_listed(tmp_path: Path) -> None:
    with RecordedPlane(tmp_path / "server") as server:
        for topic in ("pol-", "whv-svc-0", "agg"):
            otherwise = replay(server, "policy", topic, limit_s=400, elsewhere=ELSEWHERE)
        assert not {one: differences for one, differences in otherwise.items() if one not in ELSEWHERE}
