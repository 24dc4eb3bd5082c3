"""What others may build on is a list: `oarlock.extend` and the façades. Our own apps use it too, and little besides."""

from __future__ import annotations

import ast
from pathlib import Path

from source_trees import PACKAGE, source_trees

import oarlock
import oarlock.client
import oarlock.controllers
import oarlock.extend
from oarlock.meta import errors

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {
    name for facade in (oarlock, oarlock.client, oarlock.controllers, oarlock.extend, errors) for name in facade.__all__
}

ENGINES = {
    "client": 6,
    "codec": 2,
    "controllers": 3,
    "endpoints": 7,
    "net": 13,
    "patch": 3,
    "policy/admission": 50,
    "policy/authn": 5,
    "policy/authz": 8,
    "policy/fairness": 10,
    "registry": 6,
    "schema": 27,
    "server": 30,
}
"""How many names of each package the apps use that aren't public. Write a smaller number where one is gone."""


def used_inside() -> dict[str, set[str]]:
    """The names that aren't public, by their package."""
    found: dict[str, set[str]] = {}
    apps = (tree for path, tree in source_trees().items() if path.is_relative_to(PACKAGE / "apps"))
    for tree in apps:
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.module or not node.module.startswith("oarlock."):
                continue
            package = "/".join(node.module.split(".")[1:3])
            package = package if package.startswith("policy/") else package.partition("/")[0]
            if package in ("apps", "meta"):  # the nouns are anybody's
                continue
            found.setdefault(package, set()).update(
                f"{node.module}.{alias.name}" for alias in node.names if alias.name not in PUBLIC
            )
    return {package: names for package, names in found.items() if names}


def test_apps_use_what_others_may_use_and_no_more_engines_than_before() -> None:
    inside = used_inside()
    assert {package: names for package, names in inside.items() if len(names) > ENGINES.get(package, 0)} == {}


def test_the_list_is_short_and_each_name_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    assert len(oarlock.extend.__all__) <= 150
    assert [name for name in oarlock.extend.__all__ if f"`{name}`" not in page] == []


def test_each_name_is_what_its_module_says() -> None:
    assert [name for name in oarlock.extend.__all__ if getattr(oarlock.extend, name, None) is None] == []
