"""helm as tests use it: one command in a namespace, with homes of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

COMMAND_S = 120.0

Helm = Callable[..., str]


def helm_at(program: str, kubeconfig: Path, namespace: str, homes: Path) -> Helm:
    """Runs helm: what it printed. `fails` turns the exit code round."""
    folders = {f"HELM_{name}_HOME": str(homes / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}

    def run(*arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            [program, *arguments, "--namespace", namespace],
            env={**os.environ, **folders, "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"helm {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stderr if fails else done.stdout

    return run
