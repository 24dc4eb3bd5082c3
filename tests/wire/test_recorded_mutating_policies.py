"""Exchanges recorded with kube-apiserver about MutatingAdmissionPolicies are answered by ``oarlock up``."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_plane import RecordedPlane, replay


@pytest.mark.slow
def test_all_is_answered_as_recorded(tmp_path: Path) -> None:
    with RecordedPlane(tmp_path / "server") as server:
        for topic in ("pol-", "map"):
            assert replay(server, "policy", topic) == {}
