"""Exchanges recorded with kube-apiserver about ValidatingAdmissionPolicies are answered by ``oarlock up``."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_plane import RecordedPlane, replay

ELSEWHERE = {"vap-bad-syntax2", "vap-bad-var5", "vap-bad-mc", "vap-badb-act"}
"""Those that docs/differences.md lists."""


@pytest.mark.slow
def test_what_is_answered_otherwise_is_listed(tmp_path: Path) -> None:
    with RecordedPlane(tmp_path / "server") as server:
        for topic in ("pol-", "vap"):
            otherwise = replay(server, "policy", topic, elsewhere=ELSEWHERE)
            assert not {one: differences for one, differences in otherwise.items() if one not in ELSEWHERE}
