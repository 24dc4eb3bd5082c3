"""Makes what a release consists of in dist/, and tries it: ``make dist``.

Builds a wheel and a source archive. Installs each in a fresh environment, and runs the tests of the server in memory
there (TESTS, at most LIMIT_S). Writes the bill of materials of what the wheel brings (CycloneDX), and the versions of
everything that was tested. Ends with 1 at the first thing that fails.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TESTS = ("tests/walk", "tests/house/test_public_names.py")
TEST_NEEDS = ("attrs", "pydantic", "pytest-timeout", "pytest-xdist", "trustme")
LIMIT_S = 600
WHERE_IT_IS = "import oarlock, oarlock_cluster; print(oarlock.__file__)"


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", str(DIST))
    versions = [f"Python {platform.python_version()}", f"{platform.system()} {platform.release()}"]
    for built in sorted(DIST.glob("*.whl")) + sorted(DIST.glob("*.tar.gz")):
        with tempfile.TemporaryDirectory() as folder:
            python = environment(Path(folder), built)
            if built.suffix == ".whl":
                bill_of_materials(python, built)
            versions += tested(python, built)
    (DIST / "versions.txt").write_text("\n".join(versions) + "\n")
    print(
        "\n".join(["In dist:", *(f"  {file.name}  {file.stat().st_size:,} bytes" for file in sorted(DIST.iterdir()))])
    )
    return 0


def environment(folder: Path, built: Path) -> str:
    """A fresh environment with nothing but this: its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))  # pip isn't what oarlock brings
    python = str(folder / "venv" / "bin" / "python")
    pip(python, "install", "--quiet", str(built))
    where = run(python, "-c", WHERE_IT_IS, cwd=folder, quiet=True).strip()
    assert where.startswith(str(folder)), f"{built.name} was not used, but {where}"
    return python


def bill_of_materials(python: str, built: Path) -> None:
    """What an installation of the wheel brings, in CycloneDX."""
    bill = DIST / f"{'-'.join(built.name.split('-')[:2])}.cdx.json"
    options = (
        "--output-reproducible",
        "--output-format",
        "JSON",
        "--output-file",
        str(bill),
        "--pyproject",
        "pyproject.toml",
    )
    run(sys.executable, "-m", "cyclonedx_py", "environment", *options, python)


def tested(python: str, built: Path) -> list[str]:
    """The lines about an artifact whose tests passed: what they ran with."""
    needs = (f"{built}[testing]", *TEST_NEEDS)
    pip(python, "install", "--quiet", *needs)
    # the checkout's own source must not be found before the installed one
    options = ("-q", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider", "--rootdir", str(ROOT))
    run(python, "-P", "-m", "pytest", *options, *TESTS, limit_s=LIMIT_S)
    frozen = pip(python, "freeze", quiet=True).splitlines()
    return ["", f"{built.name}: the tests of {' and '.join(TESTS)} passed with", *sorted(frozen)]


def pip(python: str, *arguments: str, quiet: bool = False) -> str:
    """Our own pip, for another environment."""
    return run(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments, quiet=quiet)


def run(*command: str, cwd: Path = ROOT, limit_s: float = LIMIT_S, quiet: bool = False) -> str:
    """What a command prints. Ends the program if it fails."""
    if not quiet:
        print(
            "$", *(os.path.relpath(word, ROOT) if word.startswith(str(ROOT)) else word for word in command), flush=True
        )
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    output = subprocess.PIPE if quiet else None
    done = subprocess.run(command, cwd=cwd, env=variables, stdout=output, text=True, timeout=limit_s, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} {' '.join(command[1:4])} … ended with {done.returncode}")
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
