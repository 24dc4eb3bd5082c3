"""The syntax trees of the package, parsed once in a process for all tests that look at the source."""

from __future__ import annotations

import ast
import functools
import gc
from pathlib import Path

__all__ = ["PACKAGE", "source_trees"]

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "oarlock"


@functools.cache
def source_trees() -> dict[Path, ast.Module]:
    """Each file of the package, in the order of their names. Nobody may change a tree."""
    found = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    gc.freeze()  # millions of nodes, which every collection would visit
    return found
