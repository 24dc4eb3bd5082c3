"""`Project`: a folder that ``oarlock new`` made, and what its sources declare; `new_project` makes one.

Sources are read, never imported. See also: `additions`.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2

from oarlock.meta.dataclass import dataclass
from oarlock.scaffold.changes import Changes
from oarlock.scaffold.names import ScaffoldError, check_group, check_project, package_of, plural_of

HOMES = ("extension", "control-plane", "operator")
"""What a project is: a server behind a cluster, one by itself, or controllers of kinds that a cluster stores."""

MADE = ".oarlock.json"
"""The file with what ``oarlock new`` wrote, which ``oarlock update`` compares with."""

_FILES = {
    ".dockerignore": "dockerignore",
    ".github/workflows/ci.yaml": "ci.yaml",
    ".gitignore": "gitignore",
    "Dockerfile": "Dockerfile",
    "Makefile": "Makefile",
    "README.md": "README.md",
    "pyproject.toml": "pyproject.toml",
    "src/{package}/__init__.py": "package.py",
    "src/{package}/api/__init__.py": "api.py",
    "src/{package}/py.typed": "",
    "src/{package}/server.py": "server.py",
    "tests/conftest.py": "conftest.py",
    "tests/test_server.py": "test_server.py",
}

_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("oarlock.scaffold"),
    block_start_string="<%",
    block_end_string="%>",
    variable_start_string="<<",
    variable_end_string=">>",
    comment_start_string="<#",
    comment_end_string="#>",
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
    autoescape=False,
)


def render(template: str, **names: Any) -> str:
    """A template with these names."""
    return _templates.get_template(f"{template}.jinja").render(**names)


@dataclass(frozen=True, slots=True)
class DeclaredKind:
    """A kind of a project. `module` is where its hub is, below the package: ``api.v1.foo``.

    `collection` is its class for code and the file that has it, both empty if there is none; `versions` are all.
    """

    name: str
    version: str
    module: str
    plural: str
    cluster_scoped: bool
    status: str
    versions: tuple[str, ...]
    collection: str
    collection_file: str
    virtual: bool
    has_conditions: bool


@dataclass(frozen=True, slots=True)
class _Class:
    node: ast.ClassDef
    file: Path
    bases: tuple[str, ...]

    def keyword(self, name: str) -> Any:
        """The value of a class keyword, None if it isn't written as a constant."""
        for keyword in self.node.keywords:
            if keyword.arg == name and isinstance(keyword.value, ast.Constant):
                return keyword.value.value
        return None

    def field(self, name: str) -> str:
        """The hint of a field."""
        for node in self.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                return ast.unparse(node.annotation)
        return ""


class Project:
    """The project in `root`."""

    def __init__(self, root: Path, name: str, group: str, home: str) -> None:
        self.root = root
        self.name = name
        self.package = package_of(name)
        self.group = group
        self.home = home

    @classmethod
    def find(cls, folder: Path) -> Project:
        """The project that a folder is in. Raises `ScaffoldError`."""
        for root in (folder, *folder.parents):
            file = root / "pyproject.toml"
            if not file.is_file():
                continue
            try:
                table = tomllib.loads(file.read_text())
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ScaffoldError(f"{file}: {error}") from None
            facts = table.get("tool", {}).get("oarlock")
            if facts is None:
                break
            group, home = facts.get("group", ""), facts.get("home", HOMES[0])
            if home not in HOMES:
                raise ScaffoldError(f"{file}: [tool.oarlock] home must be {' or '.join(HOMES)}")
            name = str(table.get("project", {}).get("name", ""))
            return cls(root, check_project(name), check_group(group), home)
        raise ScaffoldError(
            f"{folder} is in no project of oarlock: go into one, or make one with oarlock new NAME --group GROUP"
        )

    @property
    def source(self) -> str:
        """The folder of the package."""
        return f"src/{self.package}"

    @property
    def facts(self) -> dict[str, str]:
        """What all templates may name."""
        return {
            "project": self.name,
            "package": self.package,
            "group": self.group,
            "home": self.home,
            "server_class": "APIServer" if self.home == "extension" else "ControlPlane",
        }

    def kind(self, name: str) -> DeclaredKind:
        """A kind that the sources declare. Raises `ScaffoldError` that names those there are."""
        kinds = self.kinds()
        if name not in kinds:
            there = f"there are {', '.join(sorted(kinds))}" if kinds else "there is none yet"
            raise ScaffoldError(
                f"{name} isn't a kind of this project: {there}; create it with oarlock add resource {name} --version v1"
            )
        return kinds[name]

    def kinds(self) -> dict[str, DeclaredKind]:
        """The kinds that the sources declare."""
        classes = list(self._classes())
        hubs = [found for found in classes if "Resource" in found.bases and found.keyword("version")]
        return {hub.node.name: self._kind(hub, classes) for hub in hubs}

    def _kind(self, hub: _Class, classes: list[_Class]) -> DeclaredKind:
        name = hub.node.name
        stored, virtual = f"StoredCollection[{name}]", f"VirtualCollection[{name}]"
        code = next((found for found in classes if stored in found.bases or virtual in found.bases), None)
        spokes = [found for found in classes if any(_is_spoke_of(base, name) for base in found.bases)]
        status = hub.field("status").partition(" |")[0]
        of_status = next((found for found in classes if found.file == hub.file and found.node.name == status), None)
        return DeclaredKind(
            name=name,
            version=hub.keyword("version"),
            module=".".join(hub.file.relative_to(self.root / self.source).with_suffix("").parts),
            plural=hub.keyword("plural") or plural_of(name),
            cluster_scoped=hub.keyword("scope") == "Cluster",
            status=status,
            versions=(hub.keyword("version"), *(found.keyword("version") or "" for found in spokes)),
            collection=code.node.name if code is not None else "",
            collection_file=code.file.relative_to(self.root).as_posix() if code is not None else "",
            virtual=code is not None and virtual in code.bases,
            has_conditions=of_status is not None
            and bool(of_status.field("conditions") and of_status.field("observed_generation")),
        )

    def _classes(self) -> Iterator[_Class]:
        for file in sorted((self.root / self.source).rglob("*.py")):
            try:
                tree = ast.parse(file.read_text())
            except (SyntaxError, UnicodeDecodeError) as error:
                raise ScaffoldError(f"{file}: {error}") from None
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    yield _Class(node, file, tuple(ast.unparse(base) for base in node.bases))


def _is_spoke_of(base: str, kind: str) -> bool:
    return base.startswith("Spoke[") and base.removesuffix("]").rpartition(".")[2].removeprefix("Spoke[") == kind


def new_project(root: Path, name: str, group: str, home: str, oarlock: str) -> tuple[Project, Changes]:
    """A project that is pinned to a version of `oarlock`, to be written to `root`. Raises `ScaffoldError`."""
    project = Project(root, check_project(name), check_group(group), home)
    changes = Changes(root)
    files = project_files(project, oarlock)
    for path, text in files.items():
        changes.create(path, text)
    changes.create(MADE, made_by(oarlock, files))
    return project, changes


def made_by(oarlock: str, files: dict[str, str]) -> str:
    """What the file `MADE` says."""
    return json.dumps({"oarlock": oarlock, "files": files}, indent=1) + "\n"


def project_files(project: Project, oarlock: str) -> dict[str, str]:
    """The files that a project begins with, by path."""
    names = {**project.facts, "oarlock": oarlock}
    return {
        path.format(package=project.package): render(f"project/{template}", **names) if template else ""
        for path, template in _FILES.items()
    }
