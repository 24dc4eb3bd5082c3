"""How long from an empty folder to `kubectl get foos`, step by step, and what a restart after a change takes?

    python benchmarks/from_nothing.py [WHEEL]

Without WHEEL one is built first, which isn't counted. pip installs once before, too, so that its cache has everything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEP_S = 300.0
SETTLED_S = 2.0
"""Between changes: controllers have started by then."""
PIP = ("-m", "pip", "--disable-pip-version-check")


def run(*command: str, cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=STEP_S, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def timed(what: str, step: Callable[[], object]) -> float:
    begun = time.monotonic()
    step()
    seconds = time.monotonic() - begun
    print(f"{what:44} {seconds:6.1f} s", flush=True)
    return seconds


def wheel(folder: Path) -> Path:
    """A wheel of this checkout, or the one that was named."""
    if len(sys.argv) > 1:
        return Path(sys.argv[1]).resolve()
    run(sys.executable, *PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT), cwd=folder)
    return next(folder.glob("*.whl"))


@contextmanager
def started(command: list[str], cwd: Path, environment: dict[str, str]) -> Iterator[Callable[[], str]]:
    """A process, and what waits until it prints a line for kubectl, which is returned."""
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        output = process.stdout
        assert output is not None

        def line() -> str:
            return next(found[0] for said in output if (found := re.search(r"kubectl .*", said)))

        try:
            yield line
        finally:
            process.terminate()


def new_project(folder: Path, built: Path) -> tuple[float, dict[str, str]]:
    """From an environment without anything to a project: seconds, and the environment to use it in."""
    env = folder / "env"
    programs = env / "bin"
    python = str(programs / "python")
    install = [python, *PIP, "install", "--quiet", f"oarlock[scaffold] @ {built.as_uri()}"]
    run(sys.executable, "-m", "venv", str(env), cwd=folder)
    run(*install, cwd=folder)
    shutil.rmtree(env)

    names = {name: os.environ[name] for name in ("LANG", "HOME", "PIP_CONFIG_FILE") if name in os.environ}
    environment = {**names, "PATH": f"{programs}:{os.environ['PATH']}", "VIRTUAL_ENV": str(env)}
    seconds = timed("python -m venv", lambda: run(sys.executable, "-m", "venv", str(env), cwd=folder))
    seconds += timed("pip install oarlock[scaffold], from its cache", lambda: run(*install, cwd=folder))
    words = ["new", "demo", "--group", "demo.example.com", "--kind", "Foo"]
    seconds += timed("oarlock new", lambda: run(str(programs / "oarlock"), *words, cwd=folder))
    return seconds, environment


def main() -> None:
    kubectl = shutil.which("kubectl") or "kubectl"
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as name:
        folder = Path(name)
        seconds, environment = new_project(folder, wheel(folder))
        project = folder / "demo"
        with started(["make", "run", "ARGS=--secure-port=0"], project, environment) as line:
            seconds += timed("make run, until it says how to use it", line)
            get = [kubectl, "--kubeconfig", "oarlock.kubeconfig", "get", "foos"]
            seconds += timed("kubectl get foos", lambda: run(*get, cwd=project, environment=environment))
        print(f"{'from nothing':44} {seconds:6.1f} s")
        changed = project / "src" / "demo" / "server.py"
        for what, text in (("a server", ""), ("a control plane", "ControlPlane")):
            changed.write_text(changed.read_text().replace("APIServer", text or "APIServer"))
            with started(["oarlock", "dev", "--secure-port=0"], project, environment) as line:
                timed(f"oarlock dev, {what}", line)
                for _ in range(3):
                    time.sleep(SETTLED_S)
                    changed.write_text(changed.read_text() + "\n")
                    timed(f"restart of {what} after a change", line)


if __name__ == "__main__":
    main()
