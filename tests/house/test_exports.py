"""A module's names without an underscore are for others; where it passes names on, `__all__` lists all of them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from source_trees import PACKAGE, source_trees

SRC = PACKAGE.parent


@dataclass(frozen=True)
class Module:
    """A source file, as far as its names go. `listed` is None without an ``__all__``."""

    name: str
    tree: ast.Module
    listed: frozenset[str] | None

    def exported(self) -> frozenset[str]:
        """What others may import: the list where there is one, else what is defined here without an underscore."""
        return self.listed if self.listed is not None else frozenset(_bound(self.tree.body))

    def public(self) -> set[str]:
        """The classes and functions defined here whose names begin without an underscore."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return {n.name for n in self.tree.body if isinstance(n, kinds) and not n.name.startswith("_")}


def read(path: Path, tree: ast.Module) -> Module:
    name = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
    listed = None
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            listed = frozenset(ast.literal_eval(node.value))
    return Module(name, tree, listed)


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    """The names that these statements of a module define, without those that begin with an underscore."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        else:
            inner = [getattr(node, part, []) for part in ("body", "orelse", "handlers", "finalbody")]
            yield from _bound([statement for statements in inner for statement in statements])
            continue
        yield from (name for name in names if not name.startswith("_"))


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    return {module.name: module for module in (read(path, tree) for path, tree in source_trees().items())}


def test_every_module_opens_by_saying_what_it_is_for(modules: dict[str, Module]) -> None:
    assert [m.name for m in modules.values() if m.tree.body and not ast.get_docstring(m.tree)] == []


def test_what_is_listed_is_there(modules: dict[str, Module]) -> None:
    listed = {m.name: m.listed for m in modules.values() if m.listed is not None}
    absent = {
        name: [one for one in sorted(names) if not hasattr(importlib.import_module(name), one)]
        for name, names in listed.items()
    }
    assert {name: names for name, names in absent.items() if names} == {}


def test_a_list_has_all_that_is_public_here(modules: dict[str, Module]) -> None:
    missing = {m.name: sorted(m.public() - m.listed) for m in modules.values() if m.listed is not None}
    assert {name: names for name, names in missing.items() if names} == {}


def test_modules_import_only_what_others_export(modules: dict[str, Module]) -> None:
    assert sorted(_strays(modules)) == []


def _strays(modules: dict[str, Module]) -> Iterator[str]:
    exported = {module.name: module.exported() for module in modules.values()}
    for module in modules.values():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("oarlock"):
                continue
            source = modules[node.module or ""]
            for alias in node.names:
                is_module = f"{source.name}.{alias.name}" in modules
                if not is_module and alias.name not in exported[source.name]:
                    yield f"{module.name} imports {alias.name} from {source.name}"
