"""Whatever is added to a project after whatever else: the project's own lint, types and tests pass."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from projects import Addition, changed, made, run, run_ruff, types

from oarlock.scaffold.additions import (
    NewKind,
    add_admission,
    add_controller,
    add_resource,
    add_subresource,
    add_version,
    add_webhook,
)
from oarlock.scaffold.changes import Changes
from oarlock.scaffold.fields import read_fields
from oarlock.scaffold.project import HOMES, Project

FOO = NewKind("Foo", "v1beta1", status=True, scale=True, fields=tuple(read_fields(("name:str", "colour:red|green?"))))
PLAIN = NewKind(
    "PizzaOrder", "v1", cluster_scoped=True, short_names=("po",), fields=tuple(read_fields(("at:datetime?",)))
)
VIRTUAL = NewKind("Reading", "v1", virtual=True, fields=tuple(read_fields(("amount:Quantity=1",))))

ADDITIONS: dict[str, Addition] = {
    "resource": lambda project, changes: add_resource(project, changes, PLAIN),
    "virtual": lambda project, changes: add_resource(project, changes, VIRTUAL),
    "version": lambda project, changes: add_version(project, changes, project.kind("Foo"), "v1"),
    "action": lambda project, changes: add_subresource(project, changes, project.kind("Foo"), "bar", "action"),
    "stream": lambda project, changes: add_subresource(project, changes, project.kind("Foo"), "log", "stream"),
    "connect": lambda project, changes: add_subresource(project, changes, project.kind("Foo"), "exec", "connect"),
    "controller": lambda project, changes: add_controller(project, changes, project.kind("Foo")),
    "admission": lambda project, changes: add_admission(project, changes, project.kind("Foo")),
    "webhook": lambda project, changes: add_webhook(project, changes, project.kind("Foo")),
    "admission-of-all": lambda project, changes: add_admission(project, changes, None),
}
"""Each addition, to a project that has a kind Foo."""

AFTER: dict[str, Addition] = {
    "controller of another": lambda project, changes: add_controller(project, changes, project.kind("PizzaOrder")),
    "version of another": lambda project, changes: add_version(project, changes, project.kind("PizzaOrder"), "v2"),
    "version of a virtual one": lambda project, changes: add_version(project, changes, project.kind("Reading"), "v2"),
    "exec of a virtual one": lambda project, changes: add_subresource(
        project, changes, project.kind("Reading"), "exec", "connect"
    ),
    "log of a virtual one": lambda project, changes: add_subresource(
        project, changes, project.kind("Reading"), "log", "stream"
    ),
    "admission of a virtual one": lambda project, changes: add_admission(project, changes, project.kind("Reading")),
}
"""Additions to what other additions have made."""


IMPORTING = """
import sys
for root in sys.argv[1:]:
    sys.path.insert(0, f"{root}/src")
    from demo.server import server
    print(root, *(resource.definition.names.kind for resource in server.catalog.resources))
    sys.path.pop(0)
    for name in [name for name in sys.modules if name.partition(".")[0] == "demo"]:
        del sys.modules[name]
"""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A project for each two additions, and one that has everything, laid out as the commands do it."""
    folder = tmp_path_factory.mktemp("projects")
    roots = {}
    for number, pair in enumerate(itertools.combinations(ADDITIONS, 2)):
        root = made(folder / f"p{number}", "demo", HOMES[number % len(HOMES)])
        changed(root, with_foo, *map(ADDITIONS.__getitem__, pair))
        roots[f"p{number}"] = root
    roots["everything"] = made(folder / "everything", "demo")
    changed(roots["everything"], with_foo, *ADDITIONS.values(), *AFTER.values())
    assert run_ruff(folder, "check", "--no-cache", "--quiet", "--fix", "--select", "I,F401", ".") == ""
    assert run_ruff(folder, "format", "--no-cache", "--quiet", ".") == ""
    return roots


def with_foo(project: Project, changes: Changes) -> None:
    add_resource(project, changes, FOO)


def test_every_two_additions_pass_ruff(pairs: dict[str, Path]) -> None:
    assert run_ruff(pairs["everything"].parent, "check", "--no-cache", ".") == ""


def test_every_two_additions_make_a_server(pairs: dict[str, Path]) -> None:
    folder = pairs["everything"].parent
    done = run(folder, "-c", IMPORTING, *pairs)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(pairs)
    assert all("Foo" in line.split() for line in lines)


@pytest.mark.slow
def test_every_two_additions_pass_mypy(pairs: dict[str, Path]) -> None:
    """A file that is the same in several projects is checked in the one that has everything."""
    everything = pairs["everything"]
    for name, root in pairs.items():
        for path in (root / "src" / "demo").rglob("*.py"):
            same = everything / path.relative_to(root)
            if path.read_text() != same.read_text():
                same.with_name(f"{path.stem}_{name}.py").write_text(path.read_text())
    assert types(everything) == ""


@pytest.mark.slow
def test_the_tests_of_a_project_with_everything_pass(pairs: dict[str, Path]) -> None:
    done = run(pairs["everything"], "-m", "pytest", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
