"""``oarlock up`` as a process of its own, for tests that talk to a control plane as users do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from server_process import ServerProcess


class ControlPlaneProcess(ServerProcess):
    """A `ServerProcess` of a control plane, which lets in its admin and whom roles allow."""

    def __init__(self, folder: Path, storage: str | None = None, options: Iterable[str] = ()) -> None:
        super().__init__(folder, "none", storage, options)

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "oarlock", "up", "--secure-port", str(self.port), "--storage", self.storage),
            *("--cert-dir", str(self.folder / "pki"), "--token-auth-file", str(self.folder / "tokens.csv")),
            *("--write-kubeconfig", str(self.kubeconfig), "--data-dir", str(self.folder), *self.options),
        ]
