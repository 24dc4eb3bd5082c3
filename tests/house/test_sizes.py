"""Budgets: a file is read in one sitting, a function on one screen."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

from source_trees import source_trees

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

FILE_LINES = 600
MEDIAN_LINES = 150
FUNCTION_LINES = 70


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
