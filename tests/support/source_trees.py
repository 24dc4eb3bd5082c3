"""The syntax trees of the packages, parsed once in a process for all tests that look at the source."""

from __future__ import annotations

import ast
import functools
import gc
from pathlib import Path

__all__ = ["PACKAGE", "every_source_tree", "source_trees"]

SOURCES = Path(__file__).resolve().parents[2] / "src"
PACKAGE = SOURCES / "oarlock"


@functools.cache
def source_trees() -> dict[Path, ast.Module]:
    """Each file of ``oarlock``, in the order of their names. Nobody may change a tree."""
    return _parsed(PACKAGE)


@functools.cache
def every_source_tree() -> dict[Path, ast.Module]:
    """The same, and those of the package beside it."""
    return source_trees() | _parsed(SOURCES / "oarlock_cluster")


def _parsed(package: Path) -> dict[Path, ast.Module]:
    found = {path: ast.parse(path.read_text()) for path in sorted(package.rglob("*.py"))}
    gc.freeze()  # millions of nodes, which every collection would visit
    return found
