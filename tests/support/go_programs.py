"""The Go programs of the client tests, built once for all test runs on a machine, until their source changes.

They are one Go module, so that they share modules and what the compiler made: `kubectl` of today, `clients` on
client-go, `manager` and `environment` on controller-runtime. `h2spec` is a module of its own, since it needs none of
theirs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["H2SPEC", "OURS", "GoModule", "NoGoModules", "built"]

CLIENTS = Path(__file__).parents[1] / "clients"
BUILD_S = 600
KEPT = 2
"""Programs of how many sources are kept, so that two branches don't build in turns."""
KUBERNETES = "1.37"
VERSION = "k8s.io/component-base/version"


class NoGoModules(Exception):
    """The modules that the programs need can't be had. The text says why."""


@dataclass(frozen=True)
class GoModule:
    """A folder with a ``go.mod``, the programs to build there, and the name of the folder in which they are kept."""

    source: Path
    packages: str
    kept: str


OURS = GoModule(CLIENTS / "client-go", "./...", "go")
H2SPEC = GoModule(CLIENTS / "h2spec", "github.com/summerwind/h2spec/cmd/h2spec", "h2spec")


def built(go: str, cache: Path, module: GoModule = OURS) -> Path:
    """The folder in which the programs are, in `cache`. The first process that asks builds it. Raises NoGoModules."""
    folder = cache / module.kept
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        programs = folder / _contents(go, module)
        if not programs.exists():
            others = sorted(folder.glob("programs-*"), key=lambda path: path.stat().st_mtime)
            for old in others[: 1 - KEPT]:
                shutil.rmtree(old)
            _build(go, folder, programs, module)
    return programs


def _contents(go: str, module: GoModule) -> str:
    """The name for the programs that this source and this compiler make."""
    said = hashlib.sha256(_go(go, module, "version").stdout.encode() + KUBERNETES.encode())
    for path in sorted(module.source.rglob("*")):
        if path.is_file():
            said.update(f"{path.relative_to(module.source)}\n".encode() + path.read_bytes())
    return f"programs-{said.hexdigest()[:16]}"


def _build(go: str, folder: Path, programs: Path, module: GoModule) -> None:
    needed = _go(go, module, "list", "-deps", module.packages)
    if needed.returncode:
        raise NoGoModules(needed.stderr.strip()[-200:])
    major, minor = KUBERNETES.split(".")
    said = {"gitMajor": major, "gitMinor": minor, "gitVersion": f"v{KUBERNETES}.0"}
    flags = " ".join(["-s -w", *(f"-X {VERSION}.{name}={value}" for name, value in said.items())])
    fresh = folder / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    done = _go(go, module, "build", "-p", "2", "-ldflags", flags, "-o", f"{fresh}{os.sep}", module.packages)
    assert done.returncode == 0, done.stderr
    fresh.rename(programs)


def _go(go: str, module: GoModule, *arguments: str) -> subprocess.CompletedProcess[str]:
    quick = {"GOGC": "400", "CGO_ENABLED": "0"}  # a compiler that collects little garbage, and no C
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", **quick}
    return subprocess.run(
        [go, *arguments],
        cwd=module.source,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
