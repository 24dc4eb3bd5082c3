"""`Changes`: files to be written and edited, all of them or none. Nothing is overwritten.

Must not know: what is in the files.
"""

from __future__ import annotations

import difflib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from oarlock.scaffold.names import ScaffoldError


class Changes:
    """Changes below `root`. Python files are formatted by the project's own rules, edited ones if they were before."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._before: dict[str, str] = {}
        self._after: dict[str, str] = {}

    def text(self, path: str) -> str:
        """A file as it is to be."""
        if path in self._after:
            return self._after[path]
        return (self.root / path).read_text()

    def exists(self, path: str) -> bool:
        return path in self._after or (self.root / path).exists()

    def create(self, path: str, text: str) -> None:
        """A new file. Raises `ScaffoldError` if it is there."""
        if self.exists(path):
            raise ScaffoldError(f"{path} is there already, and stays as it is: move it away, or choose another name")
        self._after[path] = text

    def create_if_missing(self, path: str, text: str) -> None:
        """A new file, unless it is there."""
        if not self.exists(path):
            self._after[path] = text

    def edit(self, path: str, edited: Callable[[str], str]) -> None:
        """Change a file. Raises `ScaffoldError` that names it."""
        if not self.exists(path):
            raise ScaffoldError(f"{path} isn't there: it is edited here")
        before = self.text(path)
        try:
            after = edited(before)
        except ScaffoldError as error:
            raise ScaffoldError(f"{path}: {error}") from None
        if after != before:
            if path not in self._after:
                self._before[path] = before
            self._after[path] = after

    def format(self) -> None:
        """Sort imports and lay out lines, of new files and of those that were laid out so before."""
        files = [path for path in self._after if path.endswith(".py")]
        if not files:
            return
        with tempfile.TemporaryDirectory(prefix="oarlock-scaffold-") as folder:
            copy = Path(folder)
            if self.exists("pyproject.toml"):
                (copy / "pyproject.toml").write_text(self.text("pyproject.toml"))
            before = {path: self._before[path] for path in files if path in self._before}
            laid_out = _laid_out(copy, before)
            chosen = {path: self._after[path] for path in files if laid_out.get(path) == before.get(path)}
            self._after.update(_laid_out(copy, chosen))

    def files(self) -> dict[str, str]:
        """What is to be written, by path."""
        return dict(self._after)

    def diff(self) -> Iterator[str]:
        """The lines of a unified diff."""
        for path, after in sorted(self._after.items()):
            before = self._before.get(path, "")
            source = f"a/{path}" if path in self._before else "/dev/null"
            yield from difflib.unified_diff(before.splitlines(), after.splitlines(), source, f"b/{path}", lineterm="")

    def summary(self) -> Iterator[str]:
        """A line for each file."""
        for path in sorted(self._after):
            yield f"{'edit  ' if path in self._before else 'create'} {path}"

    def write(self) -> None:
        """Write everything. Raises OSError."""
        _write(self.root, self._after)


def _write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _laid_out(copy: Path, files: dict[str, str]) -> dict[str, str]:
    """Files as ruff lays them out."""
    if not files:
        return {}
    _write(copy, files)
    _ruff(copy, "check", "--quiet", "--fix", "--exit-zero", "--select", "I,F401", *files)
    _ruff(copy, "format", "--quiet", *files)
    return {path: (copy / path).read_text() for path in files}


def _ruff(folder: Path, *arguments: str) -> None:
    beside = Path(sys.executable).with_name("ruff")
    program = str(beside) if beside.exists() else shutil.which("ruff")
    if program is None:
        raise ScaffoldError("ruff isn't installed: pip install 'oarlock[scaffold]'")
    command = [program, *arguments[:1], "--no-cache", *arguments[1:]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ScaffoldError(f"ruff: {' '.join(done.stderr.split())}")
