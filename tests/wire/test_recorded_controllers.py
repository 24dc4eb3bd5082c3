"""What kube-apiserver with kube-controller-manager answered about what controllers do, asked of ``oarlock up``."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_plane import RecordedPlane, replay


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["gc-", "quota-", "csr-"])
def test_controllers_do_what_was_recorded(tmp_path: Path, topic: str) -> None:
    with RecordedPlane(tmp_path / "server") as server:
        assert not replay(server, "plane", topic, limit_s=240)
