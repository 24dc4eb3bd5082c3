"""Deletes each check of rights in turn, and says which deletions no test notices.

    python tools/delete_checks.py --map          # once: which tests run which lines (about ten minutes)
    python tools/delete_checks.py [--list] [--every N] [PART OF A PATH …]

A check is a call whose answer is an exception (``gate.may(…)``), an exception that refuses, and, where users are told
apart, a condition under which nobody is let in. One deletion is made in a copy of the source, the
tests that run its line are run there, cheapest first, and it survives if all of them pass. Needs pytest-cov.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "oarlock"
WHERE = ("registry", "policy", "endpoints", "server/filters", "apps/controlplane", "apps/admission", "apps/controllers")
GUARDED = ("policy/authn", "policy/authz", "server/filters", "apps/controlplane/collections/roles.py")
"""Where all code is about who may do what, so that each condition counts under which nobody is let in."""
REFUSALS = {"Forbidden", "Unauthorized", "forbidden", "BadToken", "BadCredentials"}
CHECKS = {"may"}
NOBODY = {"None", "False", "NO_OPINION", "too_many_requests()"}
TESTS = (
    "tests/unit/policy",
    "tests/unit/server",
    "tests/unit/registry",
    "tests/unit/endpoints",
    "tests/unit/apps",
    "tests/walk",
)
MAP = ROOT / ".coverage.checks"
MOST_FILES = 4
"""How many files of tests are run: those of the tests that run the line and the fewest others, which are about it."""
TIME_S = 240


@dataclass(frozen=True)
class Deletion:
    """One check, and what stands in its place."""

    path: str
    line: int
    end: int
    column: int
    new: str
    what: str


def deletions(path: Path) -> Iterator[Deletion]:
    name = str(path.relative_to(ROOT))
    text = path.read_text()
    guarded = any(str(path.relative_to(SOURCE)).startswith(place) for place in GUARDED)
    for node in ast.walk(ast.parse(text)):
        if _is_check(node):
            yield Deletion(name, node.lineno, node.end_lineno or 0, node.col_offset, "pass", ast.unparse(node))
        elif guarded and isinstance(node, ast.If) and _refuses(node.body):
            test = node.test
            what = f"if {ast.unparse(test)}: {ast.unparse(node.body[-1])}"
            yield Deletion(name, test.lineno, test.end_lineno or 0, test.col_offset, "False", what)


def _is_check(node: ast.AST) -> TypeGuard[ast.stmt]:
    """A call that raises, or what raises."""
    if isinstance(node, ast.Raise):
        return node.exc is not None and _called(node.exc) in REFUSALS
    return isinstance(node, ast.Expr) and _called(node.value) in CHECKS


def _called(node: ast.expr) -> str:
    """``may`` of ``await gate.may(…)``, ``Forbidden`` of ``errors.Forbidden(…)``."""
    while isinstance(node, ast.Await | ast.Yield) and node.value is not None:
        node = node.value
    if not isinstance(node, ast.Call):
        return ""
    called = node.func
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _refuses(body: list[ast.stmt]) -> bool:
    """Whether a block does nothing but refuse: another exception, or an answer that lets nobody in."""
    if len(body) != 1:
        return False
    last = body[0]
    if isinstance(last, ast.Raise):
        return last.exc is not None and _called(last.exc) not in REFUSALS
    return isinstance(last, ast.Return) and last.value is not None and ast.unparse(last.value) in NOBODY


def changed(deletion: Deletion) -> str:
    """The text of the file without the check."""
    lines = (ROOT / deletion.path).read_text().splitlines(keepends=True)
    first, last = deletion.line - 1, deletion.end - 1
    for node in ast.walk(ast.parse("".join(lines))):
        at = (getattr(node, "lineno", 0), getattr(node, "end_lineno", 0), getattr(node, "col_offset", -1))
        if at == (deletion.line, deletion.end, deletion.column) and isinstance(node, ast.stmt | ast.expr):
            head = lines[first].encode()[: node.col_offset].decode()
            tail = lines[last].encode()[node.end_col_offset :].decode()
            return "".join([*lines[:first], head + deletion.new + tail, *lines[last + 1 :]])
    raise LookupError(deletion)


def make_map() -> int:
    """Run the tests once, and note which of them runs which line."""
    MAP.unlink(missing_ok=True)
    settings = MAP.with_suffix(".ini")
    settings.write_text(f"[run]\nsource = {SOURCE}\ndata_file = {MAP}\n")
    command = [sys.executable, "-m", "pytest", "-n", "auto", "-p", "no:cacheprovider", "-m", "not slow", *TESTS]
    command += [f"--cov={SOURCE}", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


class Contexts:
    """Which tests run a line, those first that run the fewest lines of all."""

    def __init__(self) -> None:
        from coverage.numbits import numbits_to_nums  # noqa: PLC0415  only this command needs it

        self._lines = numbits_to_nums
        self._data = sqlite3.connect(MAP)
        sizes = self._data.execute("SELECT context_id, sum(length(numbits)) FROM line_bits GROUP BY context_id")
        self._size = dict(sizes.fetchall())

    def tests(self, deletion: Deletion) -> list[str]:
        found = self._data.execute(
            "SELECT c.id, c.context, l.numbits FROM line_bits l JOIN context c ON c.id = l.context_id"
            " JOIN file f ON f.id = l.file_id WHERE f.path = ? AND c.context != ''",
            (str(ROOT / deletion.path),),
        )
        rows = [(self._size[i], name.split("|")[0], {*self._lines(bits)}) for i, name, bits in found]
        span = {*range(deletion.line, deletion.end + 1)}
        running = {(size, name) for size, name, lines in rows if lines & span}
        if not running:  # in a thread, or the file has changed since
            running = {(size, name) for size, name, _ in rows}
        files = dict.fromkeys(name.partition("::")[0] for _, name in sorted(running))
        return [*files][:MOST_FILES]


def survives(deletion: Deletion, tests: list[str], copy: Path) -> bool:
    """Whether all `tests` pass without the check. One that hangs notices it too."""
    place = copy / deletion.path
    original = place.read_text()
    place.write_text(changed(deletion))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=TIME_S, check=False)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        place.write_text(original)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--map", action="store_true", help="note which tests run which lines")
    parser.add_argument("--list", action="store_true", help="only list the checks")
    parser.add_argument("--every", type=int, default=1, help="only each N-th check")
    parser.add_argument("parts", nargs="*")
    given = parser.parse_args()
    if given.map:
        return make_map()
    paths = [path for place in WHERE for path in sorted((SOURCE / place).rglob("*.py"))]
    wanted = [path for path in paths if not given.parts or any(part in str(path) for part in given.parts)]
    found = [one for path in wanted for one in deletions(path)][:: given.every]
    if given.list:
        print("\n".join(f"{one.path}:{one.line}: {one.what:.150}" for one in found), f"{len(found)} checks", sep="\n")
        return 0
    contexts, left = Contexts(), 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "main"
        for name in ("src", "tests", "examples", "docs", "tools"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        (Path(folder) / "shared").symlink_to(ROOT.parent / "shared")
        for one in found:
            tests = contexts.tests(one)
            survived = survives(one, tests, copy) if tests else True
            left += survived
            verdict = "no test runs it" if not tests else "SURVIVED" if survived else "noticed"
            print(json.dumps([verdict, f"{one.path}:{one.line}", one.what[:150], len(tests)]), flush=True)
    print(f"{len(found)} checks deleted, {left} unnoticed")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
