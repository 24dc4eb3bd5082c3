"""Copies a kind into another version: the same fields, and the conversion to the hub and back.

Sources are read, never imported. See also: `additions`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from oarlock.scaffold.additions import kind_facts, serve
from oarlock.scaffold.changes import Changes
from oarlock.scaffold.names import ScaffoldError, check_version, module_of
from oarlock.scaffold.project import DeclaredKind, Project, render

_OF_A_VERSION = ("columns", "selectable", "status_subresource", "rules", "scale")
"""Keywords that each version says for itself."""


class _Module:
    """The source of a hub, and where each of its names comes from."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self.defined: set[str] = set()
        self.imported: dict[str, str] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                self.defined.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.defined.update(target.id for target in targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    line = f"from {'.' * node.level}{node.module or ''} import {ast.unparse(alias)}"
                    self.imported[alias.asname or alias.name] = line
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self.imported[(alias.asname or alias.name).partition(".")[0]] = f"import {ast.unparse(alias)}"

    def of_class(self, name: str) -> ast.ClassDef | None:
        return next((node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)

    def text(self, node: ast.AST) -> str:
        return ast.get_source_segment(self.source, node) or ""


def add_version(project: Project, changes: Changes, kind: DeclaredKind, version: str) -> None:
    """A version of a kind that says the same as its hub. Raises `ScaffoldError`."""
    check_version(version)
    if version in kind.versions:
        raise ScaffoldError(f"{kind.name} is in {version} already")
    snake = module_of(kind.name)
    module = _Module(changes.text(f"{project.source}/{kind.module.replace('.', '/')}.py"))
    changes.create_if_missing(f"{project.source}/api/{version}/__init__.py", f'"""{project.group}/{version}."""\n')
    changes.create(f"{project.source}/api/{version}/{snake}.py", _spoke(project, kind, version, module))
    facts = kind_facts(project, kind, version)
    names = {
        **facts,
        "hub_version": kind.version,
        "hub_module": kind.module,
        "hub_path": kind_facts(project, kind)["path"],
        "module": f"api.{version}.{snake}",
    }
    changes.create(f"tests/test_{snake}_{version}.py", render("additions/test_versions.py", **names))
    alias = f"{kind.name}{version.capitalize()}"
    serve(project, changes, f"from .api.{version}.{snake} import {kind.name} as {alias}", alias)


def _spoke(project: Project, kind: DeclaredKind, version: str, module: _Module) -> str:
    hub = module.of_class(kind.name)
    assert hub is not None
    fields = [node for node in hub.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    keywords = [word for word in hub.keywords if word.arg in _OF_A_VERSION]
    copied = _copied_spec(fields, module)
    used = set(_names([*fields, *(word.value for word in keywords), *([copied] if copied is not None else [])]))
    if copied is not None:
        used.discard(copied.name)
    lines = sorted(module.imported[name] for name in used if name in module.imported)
    from_hub = sorted(used & module.defined)
    hub_module = kind.module.removeprefix("api.")
    if from_hub:
        lines.append(f"from ..{hub_module} import {', '.join(from_hub)}")
    package, _, file = hub_module.rpartition(".")
    imports = ["from typing import Self", "from oarlock import Model, Spoke", f"from ..{package} import {file} as hub"]
    names = [node.target.id for node in fields if isinstance(node.target, ast.Name)]
    return render(
        "additions/spoke.py",
        group=project.group,
        version=version,
        kind=kind.name,
        hub_version=kind.version,
        imports="\n".join([*imports, *lines]),
        spec_class=module.text(copied) if copied is not None else "",
        spec=copied.name if copied is not None else "",
        spec_fields=_field_names(copied) if copied is not None else [],
        keywords="".join(f", {module.text(word)}" for word in keywords),
        doc=ast.get_docstring(hub) or f"The kind {kind.name}.",
        fields=[module.text(node) for node in fields],
        others=[name for name in names if copied is None or name != "spec"],
    )


def _copied_spec(fields: Iterable[ast.AnnAssign], module: _Module) -> ast.ClassDef | None:
    """The class of `spec`, which the version gets one of its own of, so that it may change."""
    for node in fields:
        if isinstance(node.target, ast.Name) and node.target.id == "spec" and isinstance(node.annotation, ast.Name):
            return module.of_class(node.annotation.id)
    return None


def _field_names(cls: ast.ClassDef) -> list[str]:
    return [
        node.target.id for node in cls.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Name):
                yield node.id
