"""A file that several servers may make at once is made under the lock of its folder, not "there? no: then write"."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_trees import PACKAGE, source_trees

LOCKS = {"locked", "locked_directory", "held_certificates"}
WRITERS = {"write_file", "write_pair"}
PLAIN_WRITERS = {"write_text", "write_bytes", "touch"}
QUESTIONS = {"exists", "is_file", "stat"}

UNDER_A_LOCK = {
    "server/serving/certificates/issuing.py: write_pair": "its callers are found here too",
    "server/serving/certificates/issuing.py: complete": "`serving_pair` holds the lock",
    "server/serving/certificates/issuing.py: _signer": "`serving_pair` holds the lock",
    "server/files/store_mark.py: _write": "a process replaces what it wrote itself, whole",
    "server/serving/certificates/issuing.py: _authorities": "`ensure_front_proxy` holds the lock",
}
"""Functions that write what others may make, and whose callers hold the lock."""

FOR_ONE_PERSON = {
    "cli/deploying/command.py: _write": "a command writes files for the person who called it",
    "cli/control_plane_commands.py: write_programs": "a command writes files for the person who called it",
    "scaffold/changes.py: format": "a folder of its own, for this call only",
    "testing/thread.py: _bring_token_key": "one test's server starts in the folder",
}
"""Functions that look whether a file is there and write it, and that no two processes call at once."""


def functions() -> Iterator[tuple[str, ast.AST]]:
    for file, tree in source_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{file.relative_to(PACKAGE)}: {node.name}", node


def called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def unlocked(node: ast.AST, names: set[str]) -> bool:
    """Whether one of `names` is called outside of a lock."""
    if isinstance(node, ast.With) and any(called(item.context_expr) in LOCKS for item in node.items):
        return False
    return called(node) in names or any(unlocked(child, names) for child in ast.iter_child_nodes(node))


def test_what_servers_make_is_made_under_a_lock() -> None:
    found = {name for name, node in functions() if unlocked(node, WRITERS)}
    assert found == UNDER_A_LOCK.keys()


def test_nobody_looks_whether_a_file_is_there_and_then_writes_it() -> None:
    found = {name for name, node in functions() if unlocked(node, QUESTIONS) and unlocked(node, PLAIN_WRITERS)}
    assert found == FOR_ONE_PERSON.keys()
