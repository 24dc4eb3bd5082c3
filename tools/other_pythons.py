"""What depends on the version of Python, tested on every other Python of this machine: ``make test-pythons``.

That is how classes and their hints are read, event loops, threads, sockets and TLS, codecs, how deep recursion may go,
and sources that commands read and write. All units are tested but those of the control plane and of the cluster in a
process, and of the server in memory what `WALKS` names. Of the control plane and the cluster it is their start, their
end and the connections they pass on.

Left out is what is computed of plain data, alike on every Python: the rules of Kubernetes' kinds, merges of fields,
recorded answers, bounds of memory. ``make test`` tests all of it on the Python of the checkout.

Looked for are ``python3.11``, ``python3.12`` and so on, on the PATH and among pyenv's versions; that of the checkout's
own environment is left out. Each has an environment in ``.venvs/``, which is made anew when pyproject.toml has changed.
A Python for which a package can't be had is left out, and said so; any other failure is one of this command. What
follows goes to pytest.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".venvs"
OLDEST = (3, 11)
NEWEST = (3, 19)
UNITS = ROOT / "tests" / "unit"
OF_PLAIN_DATA = ("apps", "cluster")
"""Folders of units of which only what `STARTED` names is tested."""
STARTED = (
    "apps/aggregation/test_upgrades.py",
    "apps/test_control_plane.py",
    "apps/test_the_order_of_plugins.py",
    "cluster/test_a_simulated_cluster.py",
)
WALKS = (
    *("a_server_runs_again", "cbor", "connecting_subresources", "conversions_that_wait", "create", "custom_resources"),
    *("files_are_read_again", "forms_of_lists", "hooks_that_go_wrong", "informers", "long_running_requests"),
    *("one_of_several_models", "parts_of_objects", "protobuf_of_declared_types", "reading", "requests"),
    *("streaming_subresources", "the_adapter_example", "types_made_elsewhere", "types_of_the_standard_library"),
    *("updating", "versions_of_types_made_elsewhere", "virtual_resources", "watching", "watching_over_websocket"),
    *("what_hooks_refuse_by_raising", "what_may_wait", "work_that_is_long_leaves_the_loop"),
)
NOT_TO_BE_HAD = re.compile(r"No matching distribution found for (.+)|Failed to build (?:installable wheels for )?(.+)")

Version = tuple[int, int]


def main() -> int:
    failed = []
    for version, python in sorted(others().items()):
        name = ".".join(map(str, version))
        missing = prepare(name, python)
        if missing is not None:
            print(f"Python {name} is left out: {missing}", flush=True)
        elif run(name):
            failed.append(name)
    if failed:
        print(f"tests fail with Python {', '.join(failed)}")
    return 1 if failed else 0


def others() -> dict[Version, str]:
    """The Pythons that oarlock is for, but the one that runs this. The first found of each version is taken."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    names = [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    candidates = [found for name in names if (found := shutil.which(name))]
    candidates += [str(path) for path in sorted(pyenv.glob("3.*/bin/python"), reverse=True)]
    found: dict[Version, str] = {}
    for candidate in candidates:
        version = version_of(candidate)
        if version is not None and OLDEST <= version <= NEWEST and version != sys.version_info[:2]:
            found.setdefault(version, candidate)
    return found


def version_of(python: str) -> Version | None:
    """None if it doesn't run: pyenv puts names on the PATH for which it has chosen no version."""
    say = "import sys; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-c", say], capture_output=True, text=True, check=False)
    major, _, minor = done.stdout.strip().partition(" ")
    return (int(major), int(minor)) if done.returncode == 0 and minor else None


def prepare(name: str, python: str) -> str | None:
    """Make its environment, if there is none for this pyproject.toml; None, or why there can't be one."""
    folder = ENVIRONMENTS / name
    stamp = folder / "installed"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return None
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--editable", ".[dev]"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        stamp.write_text(wanted)
        return None
    missing = NOT_TO_BE_HAD.search(done.stderr)
    if missing is None:
        raise SystemExit(f"Python {name}: {done.stderr}")
    return f"there is no {(missing[1] or missing[2]).strip()} for it"


def run(name: str) -> int:
    """The exit code of pytest."""
    print(f"Python {name}:", flush=True)
    python = str(ENVIRONMENTS / name / "bin" / "python")
    workers = ("-n", "auto", "--maxprocesses", "8", "--dist", "worksteal")
    command = [python, "-m", "pytest", *workers, "-m", "not slow", *sys.argv[1:], *tests()]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def tests() -> list[str]:
    """The folders and files that pytest is given."""
    folders = sorted(
        path for path in UNITS.iterdir() if path.is_dir() and path.name not in (*OF_PLAIN_DATA, "__pycache__")
    )
    walks = [ROOT / "tests" / "walk" / f"test_{name}.py" for name in WALKS]
    return [str(path.relative_to(ROOT)) for path in (*folders, *(UNITS / name for name in STARTED), *walks)]


if __name__ == "__main__":
    sys.exit(main())
