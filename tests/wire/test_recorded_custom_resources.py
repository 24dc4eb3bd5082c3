"""Exchanges recorded with kube-apiserver about definitions and custom resources are answered by ``oarlock up``.

The recording is of a server without controllers, and its exchanges build on each other: all are replayed at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_plane import RecordedPlane, replay

ELSEWHERE = {
    *("crd-schema-34", "crd-schema-38", "crd-cel-23", "crd-cel-25", "crd-serve-23", "crd-serve-24", "crd-live-15"),
    *("crd-live-18", "crd-version-14", "crd-version-24", "crd-convert-44", "cr-change-25", "cr-change-26"),
    *("cr-change-31", "cr-change-40", "cr-plain-17", "cr-cel-11"),
}
"""Those that docs/differences.md lists."""


@pytest.mark.slow
def test_what_is_answered_otherwise_is_listed(tmp_path: Path) -> None:
    without_collector = ["--controllers=*,-garbage-collector-controller"]
    with RecordedPlane(tmp_path / "server", without_collector) as server:
        otherwise = replay(server, "crd", limit_s=300, elsewhere=ELSEWHERE)
    assert not {one: differences for one, differences in otherwise.items() if one not in ELSEWHERE}
