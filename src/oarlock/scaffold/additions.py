"""What ``oarlock add`` adds to a project: resources, versions, subresources, controllers, admission, virtual kinds.

Each function puts new files and edits into `Changes`, and writes nothing.
A version is a copy of a kind: the same fields, and the conversion to the hub and back. Sources are read, never
imported. Must not know: command lines.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import yaml

from oarlock.meta.dataclass import dataclass
from oarlock.scaffold.changes import Changes
from oarlock.scaffold.edits import with_import, with_item, with_method
from oarlock.scaffold.fields import SpecField
from oarlock.scaffold.names import (
    ScaffoldError,
    check_kind,
    check_plural,
    check_short_name,
    check_subresource,
    check_version,
    collection_of,
    module_of,
    plural_of,
    words_of,
)
from oarlock.scaffold.project import DeclaredKind, Project, render

SUBRESOURCES = ("action", "stream", "connect")
"""What a subresource does: answer a request, go on answering, or take the connection."""

SERVERS = ("APIServer", "ControlPlane")


@dataclass(frozen=True, slots=True)
class NewKind:
    """A kind to be added, as it was asked for."""

    name: str
    version: str
    plural: str = ""
    short_names: tuple[str, ...] = ()
    fields: tuple[SpecField, ...] = ()
    cluster_scoped: bool = False
    status: bool = False
    scale: bool = False
    virtual: bool = False

    def check(self) -> None:
        """Raises `ScaffoldError` with the rule that a name breaks."""
        check_kind(self.name)
        check_version(self.version)
        check_plural(self.plural or plural_of(self.name))
        for name in self.short_names:
            check_short_name(name)
        if self.scale and any(field.name == "replicas" for field in self.fields):
            raise ScaffoldError("--scale brings a field replicas of its own: leave out --field replicas")


def kind_facts(project: Project, kind: DeclaredKind, version: str = "") -> dict[str, Any]:
    """What templates name of a kind."""
    version = version or kind.version
    where = "" if kind.cluster_scoped else "/namespaces/default"
    return {
        **project.facts,
        "kind": kind.name,
        "version": version,
        "module": kind.module,
        "plural": kind.plural,
        "cluster_scoped": kind.cluster_scoped,
        "collection": kind.collection,
        "status": kind.status,
        "snake": module_of(kind.name),
        "sample": module_of(kind.name),
        "constant": module_of(kind.plural).strip("_").upper(),
        "path": f"/apis/{project.group}/{version}{where}/{kind.plural}",
    }


def add_resource(project: Project, changes: Changes, new: NewKind) -> DeclaredKind:
    """A kind with its collection, a sample and tests; a virtual one with its methods. Raises `ScaffoldError`."""
    new.check()
    kinds = project.kinds()
    if new.name in kinds:
        there = kinds[new.name]
        raise ScaffoldError(
            f"there is a kind {new.name} in {there.version} already: oarlock add version {new.name} {new.version} adds "
            f"another version of it"
        )
    snake, plural = module_of(new.name), new.plural or plural_of(new.name)
    taken = next((kind.name for kind in kinds.values() if kind.plural == plural), "")
    if taken:
        raise ScaffoldError(f"the plural {plural} is that of {taken}: set another --plural")
    collection = collection_of(new.name, new.plural)
    kind = DeclaredKind(
        name=new.name,
        version=new.version,
        module=f"api.{new.version}.{snake}",
        plural=plural,
        cluster_scoped=new.cluster_scoped,
        status=f"{new.name}Status" if new.status or new.scale else "",
        versions=(new.version,),
        collection=collection,
        collection_file=f"{project.source}/collections/{module_of(collection)}.py",
        virtual=new.virtual,
        has_conditions=new.status,
    )
    facts = kind_facts(project, kind)
    _add_kind_file(project, changes, new, facts)
    _package(changes, f"{project.source}/collections", "What the server does with its kinds beyond storing them.")
    template = "virtual.py" if new.virtual else "collection.py"
    changes.create(kind.collection_file, render(f"additions/{template}", **facts))
    changes.create(f"samples/{snake}.yaml", _sample(new, facts))
    changes.create(f"tests/test_{snake}.py", render("additions/test_kind.py", virtual=new.virtual, **facts))
    serve(
        project,
        changes,
        f"from .collections.{module_of(kind.collection)} import {kind.collection}",
        f"{kind.collection}()" if new.virtual else kind.collection,
    )
    return kind


def _add_kind_file(project: Project, changes: Changes, new: NewKind, facts: dict[str, Any]) -> None:
    _package(changes, f"{project.source}/api/{new.version}", f"{project.group}/{new.version}.")
    named = set().union(*(field.names() for field in new.fields)) if new.fields else set()
    names = {"Model", "Resource", *(named & {"Quantity", "IntOrString", "JSON"})}
    names |= {"Condition", "ListMap"} if new.status else set()
    names |= {"Scale"} if new.scale else set()
    words = " ".join(words_of(new.name))
    text = render(
        "additions/kind.py",
        **{
            **facts,
            "plural": new.plural,
            "status": new.status,
            "scale": new.scale,
            "fields": new.fields,
            "names": sorted(names),
            "typing": sorted({"Annotated"} & ({"Annotated"} if new.status else set()) | (named & {"Literal"})),
            "datetime": "datetime" in named,
            "short_names": _listed(new.short_names),
            "words": words,
            "article": "An" if words[0] in "aeiou" else "A",
        },
    )
    changes.create(f"{project.source}/{facts['module'].replace('.', '/')}.py", text)


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}]" if names else ""


def _sample(new: NewKind, facts: dict[str, Any]) -> str:
    spec: dict[str, Any] = {field.wire: field.sample for field in new.fields}
    if new.scale:
        spec["replicas"] = 1
    block = yaml.safe_dump(spec, sort_keys=False) if spec else "{}\n"
    text = f"\n{textwrap.indent(block, '  ')}" if spec else f" {block}"
    return render("additions/sample.yaml", spec=text.rstrip("\n"), **facts)


def _package(changes: Changes, folder: str, about: str) -> None:
    changes.create_if_missing(f"{folder}/__init__.py", f'"""{about}"""\n')


def serve(project: Project, changes: Changes, line: str, item: str, keyword: str = "serve") -> None:
    """Import something in the server's file, and put it into a list of the server's."""
    path = f"{project.source}/server.py"
    changes.edit(path, lambda source: with_import(with_item(source, SERVERS, keyword, item), line))


def add_subresource(project: Project, changes: Changes, kind: DeclaredKind, name: str, of: str) -> None:
    """A subresource of a kind, of one of `SUBRESOURCES`. Raises `ScaffoldError`."""
    check_subresource(name)
    if not kind.collection:
        raise ScaffoldError(
            f"{kind.name} has no collection to put it into: write class {collection_of(kind.name, kind.plural)}"
            f"(StoredCollection[{kind.name}]) and serve that"
        )
    method = f"_{name.replace('-', '_')}"
    body = kind.name + "".join(part.capitalize() for part in name.split("-"))
    facts = {**kind_facts(project, kind), "name": name, "method": method, "body": body, "of": of}
    imports = {"oarlock": {"subresource"}}
    if of == "action":
        check_kind(body)
        snake = module_of(body)
        changes.create(
            f"{project.source}/api/{kind.version}/{snake}.py", render("additions/subresource_kind.py", **facts)
        )
        imports["oarlock"].add("Context")
        imports[f"..api.{kind.version}.{snake}"] = {body, f"{body}Status"}
    elif of == "stream":
        imports["collections.abc"] = {"AsyncIterator"}
    else:
        imports["oarlock"].add("Channels")
    text = render(f"additions/{of}.py", **facts)

    def edited(source: str) -> str:
        source = with_method(source, kind.collection, text)
        first = {"stream": "import asyncio", "connect": "Command = list[str]"}
        if of in first:
            source = with_import(source, first[of])
        for module, names in imports.items():
            source = with_import(source, f"from {module} import {', '.join(sorted(names))}")
        return source

    changes.edit(kind.collection_file, edited)
    test = f"tests/test_{module_of(kind.name)}_{name.replace('-', '_')}.py"
    changes.create(test, render("additions/test_subresource.py", **facts))


def add_controller(project: Project, changes: Changes, kind: DeclaredKind) -> None:
    """A controller of a kind. Raises `ScaffoldError`."""
    if kind.virtual:
        raise ScaffoldError(
            f"{kind.name} is virtual, and its objects can't be followed without a method watch; what acts on them is "
            f"best done where they are kept"
        )
    facts = {**kind_facts(project, kind), "conditions": kind.has_conditions}
    _package(changes, f"{project.source}/controllers", "Code that acts on what is stored, and tells how it is.")
    changes.create(f"{project.source}/controllers/{facts['snake']}.py", render("additions/controller.py", **facts))
    changes.create(f"tests/test_{facts['snake']}_controller.py", render("additions/test_controller.py", **facts))
    line = f"from .controllers.{facts['snake']} import {kind.name}Controller"
    serve(project, changes, line, f"{kind.name}Controller()", "controllers")


def add_admission(project: Project, changes: Changes, kind: DeclaredKind | None) -> None:
    """An admission plugin of a kind, or of all. Raises `ScaffoldError`."""
    facts: dict[str, Any] = {**project.facts, "kind": "", "snake": "every_kind", "plugin": "EveryKindProtection"}
    if kind is not None:
        facts |= {**kind_facts(project, kind), "plugin": f"{kind.name}Protection"}
    _package(changes, f"{project.source}/admission", "Who may write what.")
    changes.create(f"{project.source}/admission/{facts['snake']}.py", render("additions/admission.py", **facts))
    changes.create(f"tests/test_{facts['snake']}_admission.py", render("additions/test_admission.py", **facts))
    line = f"from .admission.{facts['snake']} import {facts['plugin']}"
    serve(project, changes, line, f"{facts['plugin']}()", "admission")


def add_webhook(project: Project, changes: Changes, kind: DeclaredKind) -> None:
    """An admission plugin that fills in and refuses, for the webhooks of a cluster as well. Raises `ScaffoldError`."""
    if kind.virtual:
        raise ScaffoldError(
            f"{kind.name} is virtual, and no cluster keeps its objects: oarlock add admission is for it"
        )
    facts = {**kind_facts(project, kind), "plugin": f"{kind.name}Creator"}
    _package(changes, f"{project.source}/admission", "Who may write what.")
    snake = f"{facts['snake']}_webhook"
    changes.create(f"{project.source}/admission/{snake}.py", render("additions/webhook.py", **facts))
    changes.create(f"tests/test_{snake}.py", render("additions/test_webhook.py", **facts))
    line = f"from .admission.{snake} import {facts['plugin']}"
    serve(project, changes, line, f"{facts['plugin']}()", "admission")


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
