"""Installs oarlock and what it needs into an environment, and shows what it does: ``tools/install.py FOLDER WHAT``.

Run by the Makefile with the environment's Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from oarlock.cli.progress import run_shown, shown_progress

OPTIONS = ("--disable-pip-version-check", "--root-user-action=ignore", "--progress-bar=off", "--no-color")


def main(folder: str, what: str) -> int:
    print(f"Installing what oarlock needs into {folder}, once; this may take a minute or two", flush=True)
    with shown_progress() as line:
        return run_shown([sys.executable, "-m", "pip", "install", *OPTIONS, "--editable", what], line)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
