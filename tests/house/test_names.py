"""One meaning a word: a class name is defined once, and the glossary of ARCHITECTURE.md tells where."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from source_trees import every_source_tree

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "oarlock"

TWICE = {
    "Forbidden",  # public: the answer 403 in `errors`; a field error
    "Page",  # public: of a virtual resource's list; of a backend's list
    "Quantity",  # public: an amount; the type of a field that has one
    "Event",  # Kubernetes' kinds of two groups
    "EventSeries",  # parts of these
    "Subject",  # Kubernetes' types of two groups
}

GENERIC = {"Callable", "Literal", "Annotated", "Mapping", "Sequence", "Iterable", "Iterator", "Generator", "Awaitable"}
GENERIC |= {"dict", "list", "tuple", "set", "frozenset", "type"}


def _is_type(node: ast.expr | None) -> bool:
    """Whether a value is a type: `dict[str, Any]`, `A | B`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id in GENERIC
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return all(isinstance(side, ast.Constant | ast.Name) or _is_type(side) for side in (node.left, node.right))
    return False


def _defined(node: ast.stmt) -> str | None:
    """The name of the class or type alias that a statement defines."""
    if isinstance(node, ast.ClassDef):
        return node.name
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(target, ast.Name) or target.id.isupper():
        return None
    is_alias = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"
    return target.id if is_alias or (isinstance(node, ast.Assign) and _is_type(node.value)) else None


def test_the_name_of_a_class_or_type_has_one_meaning() -> None:
    defined = defaultdict(list)
    for path, tree in every_source_tree().items():
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for node in {id(node): node for node in (*classes, *tree.body)}.values():
            name = _defined(node)
            if name is not None:
                defined[name].append(f"{path.relative_to(PACKAGE.parent)}:{node.lineno}")
    assert {name: places for name, places in defined.items() if len(places) > 1 and name not in TWICE} == {}


def test_what_is_looked_at_in_a_loop_has_the_name_of_its_kind() -> None:
    """`one` says nothing of what it is."""
    places = [
        f"{path.relative_to(PACKAGE.parent)}:{name.lineno}"
        for path, tree in every_source_tree().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name) and name.id == "one"
    ]
    assert places == []


def test_what_the_glossary_names_is_where_it_says() -> None:
    glossary = (ROOT / "ARCHITECTURE.md").read_text().split("## Glossary")[1]
    rows = re.findall(r"^\| (.+?) \| .+ \| `(.+?)` \|$", glossary, re.MULTILINE)
    assert len(rows) > 30
    for word, module in rows:
        text = (PACKAGE / module).read_text()
        for name in re.findall(r"`(\w+)`", word):
            assert re.search(rf"^class {name}\b", text, re.MULTILINE), (name, module)
