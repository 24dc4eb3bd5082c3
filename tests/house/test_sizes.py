"""Budgets: a file is read in one sitting, a function on one screen; a module joins few others."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

from source_trees import source_trees

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

FILE_LINES = 600
MEDIAN_LINES = 250
FUNCTION_LINES = 70
FAN_OUT = 25
"""How many modules of ours a module may import: one that knows more knows several concerns."""
FACADES = {ROOT / "src" / "oarlock" / name for name in ("__init__.py", "extend.py")}
"""They list the public names of all."""


def test_files_are_short() -> None:
    lines = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in SOURCES}
    lines = {path: count for path, count in lines.items() if count}
    assert {path: count for path, count in lines.items() if count > FILE_LINES} == {}
    assert median(lines.values()) <= MEDIAN_LINES


def test_functions_fit_a_screen() -> None:
    long = []
    for path, tree in source_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                count = node.end_lineno - node.lineno + 1
                if count > FUNCTION_LINES:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {count} lines")
    assert long == []


def test_no_module_imports_too_many_others() -> None:
    modules = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in SOURCES}
    wide = {}
    for path, tree in source_trees().items():
        names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                of_modules = {f"{node.module}.{alias.name}" for alias in node.names} & modules
                names |= of_modules or {node.module}
        count = sum(name.partition(".")[0] == "oarlock" for name in names)
        if count > FAN_OUT and path not in FACADES:
            wide[str(path.relative_to(ROOT))] = count
    assert wide == {}
