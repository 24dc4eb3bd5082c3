"""`__all__` is the truth: what is in it is there, what is public is in it, and others use nothing else."""

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
    """A source file, as far as its names go. `exported` is None without an ``__all__``."""

    name: str
    tree: ast.Module
    exported: frozenset[str] | None

    def public(self) -> set[str]:
        """The classes and functions defined here whose names begin without an underscore."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return {n.name for n in self.tree.body if isinstance(n, kinds) and not n.name.startswith("_")}


def read(path: Path, tree: ast.Module) -> Module:
    name = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
    exported = None
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            exported = frozenset(ast.literal_eval(node.value))
    return Module(name, tree, exported)


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    return {module.name: module for module in (read(path, tree) for path, tree in source_trees().items())}


def test_every_module_opens_by_saying_what_it_is_for(modules: dict[str, Module]) -> None:
    assert [m.name for m in modules.values() if m.tree.body and not ast.get_docstring(m.tree)] == []


def test_every_module_with_code_lists_its_names(modules: dict[str, Module]) -> None:
    without = [m.name for m in modules.values() if m.exported is None and m.public()]
    assert without == []


def test_what_is_listed_is_there(modules: dict[str, Module]) -> None:
    exported = {m.name: m.exported for m in modules.values() if m.exported is not None}
    absent = {
        name: [one for one in sorted(names) if not hasattr(importlib.import_module(name), one)]
        for name, names in exported.items()
    }
    assert {name: names for name, names in absent.items() if names} == {}


def test_what_is_public_is_listed(modules: dict[str, Module]) -> None:
    missing = {m.name: sorted(m.public() - m.exported) for m in modules.values() if m.exported is not None}
    assert {name: names for name, names in missing.items() if names} == {}


def test_nobody_imports_what_is_not_listed(modules: dict[str, Module]) -> None:
    assert sorted(_strays(modules)) == []


def _strays(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("oarlock"):
                continue
            source = modules[node.module or ""]
            for alias in node.names:
                is_module = f"{source.name}.{alias.name}" in modules
                if not is_module and alias.name not in (source.exported or ()):
                    yield f"{module.name} imports {alias.name} from {source.name}"
