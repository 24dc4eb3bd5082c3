"""Exchanges recorded with kube-apiserver about admission webhooks are answered by ``oarlock up``."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_plane import RecordedPlane, replay

ELSEWHERE = {
    *("whv-bad-name-5", "whv-bad-mc-3"),
    *("whm-bad-2", "whm-beh-specbad", "whv-bad-url-5"),
}
"""Those that docs/differences.md lists."""


@pytest.mark.slow
def test_what_is_answered_otherwise_is_listed(tmp_path: Path) -> None:
    with RecordedPlane(tmp_path / "server") as server:
        otherwise = {}
        for topic in ("pol-", "whv-", "whm"):
            otherwise |= replay(server, "policy", topic, elsewhere=ELSEWHERE)
    assert otherwise.keys() == ELSEWHERE, {one: why for one, why in otherwise.items() if one not in ELSEWHERE}
