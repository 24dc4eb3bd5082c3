"""One meaning a word: a class name is defined once, and the glossary of ARCHITECTURE.md tells where."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from source_trees import source_trees

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "oarlock"

PUBLIC_TWICE = {
    "Forbidden",  # the answer 403 in `errors`; a field error
    "Page",  # of a virtual resource's list; of a backend's list
}


KUBERNETES_NAMES = PACKAGE / "apps" / "kinds"
"""Kinds and their parts are called there what Kubernetes calls them."""


def _is_alias(node: ast.AST) -> bool:
    return isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"


def test_a_class_name_has_one_meaning() -> None:
    defined = defaultdict(list)
    for path, tree in source_trees().items():
        for node in () if path.is_relative_to(KUBERNETES_NAMES) else ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
            elif isinstance(node, ast.AnnAssign) and _is_alias(node):
                defined[ast.unparse(node.target)].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert {name: places for name, places in defined.items() if len(places) > 1 and name not in PUBLIC_TWICE} == {}


def test_what_the_glossary_names_is_where_it_says() -> None:
    glossary = (ROOT / "ARCHITECTURE.md").read_text().split("## Glossary")[1]
    rows = re.findall(r"^\| (.+?) \| .+ \| `(.+?)` \|$", glossary, re.MULTILINE)
    assert len(rows) > 30
    for word, module in rows:
        text = (PACKAGE / module).read_text()
        for name in re.findall(r"`(\w+)`", word):
            assert re.search(rf"^class {name}\b", text, re.MULTILINE), (name, module)
