"""The Go programs of the client tests, built once for all test runs on a machine, until their source changes.

They are one Go module, so that they share modules and what the compiler made: `kubectl` of today, `clients` on
client-go, `manager` on controller-runtime.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["NoGoModules", "built"]

SOURCE = Path(__file__).parents[1] / "clients" / "client-go"
BUILD_S = 600
KEPT = 2
"""Programs of how many sources are kept, so that two branches don't build in turns."""
KUBERNETES = "1.37"
VERSION = "k8s.io/component-base/version"


class NoGoModules(Exception):
    """The modules that the programs need can't be had. The text says why."""


def built(go: str, cache: Path) -> Path:
    """The folder in which the programs are, in `cache`. The first process that asks builds it. Raises NoGoModules."""
    folder = cache / "go"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        programs = folder / _contents(go)
        if not programs.exists():
            others = sorted(folder.glob("programs-*"), key=lambda path: path.stat().st_mtime)
            for old in others[: 1 - KEPT]:
                shutil.rmtree(old)
            _build(go, folder, programs)
    return programs


def _contents(go: str) -> str:
    """The name for the programs that this source and this compiler make."""
    said = hashlib.sha256(_go(go, "version").stdout.encode() + KUBERNETES.encode())
    for path in sorted(SOURCE.rglob("*")):
        if path.is_file():
            said.update(f"{path.relative_to(SOURCE)}\n".encode() + path.read_bytes())
    return f"programs-{said.hexdigest()[:16]}"


def _build(go: str, folder: Path, programs: Path) -> None:
    needed = _go(go, "list", "-deps", "./...")
    if needed.returncode:
        raise NoGoModules(needed.stderr.strip()[-200:])
    major, minor = KUBERNETES.split(".")
    said = {"gitMajor": major, "gitMinor": minor, "gitVersion": f"v{KUBERNETES}.0"}
    flags = " ".join(["-s -w", *(f"-X {VERSION}.{name}={value}" for name, value in said.items())])
    fresh = folder / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    done = _go(go, "build", "-p", "2", "-ldflags", flags, "-o", f"{fresh}{os.sep}", "./...")
    assert done.returncode == 0, done.stderr
    fresh.rename(programs)


def _go(go: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    quick = {"GOGC": "400", "CGO_ENABLED": "0"}  # a compiler that collects little garbage, and no C
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", **quick}
    return subprocess.run(
        [go, *arguments], cwd=SOURCE, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
