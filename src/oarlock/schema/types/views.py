"""Converts trees to typed objects (views), and typed objects to trees.

Pure. A view shares nothing with its tree. A tree that doesn't fit its class raises `ViewError`,
which is a 422 response. Must not know: hooks. See also: `folding`, which applies a hook's changes to the tree.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from oarlock.meta.errors import InvalidObject
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.schema.types.object_schema import object_schema
from oarlock.schema.types.plans import TidyPlan, plan_of, tidy
from oarlock.schema.types.resources import Declared

__all__ = ["ViewError", "builtins_of", "view", "wire"]

T = TypeVar("T")

_convert = msgspec.convert
_to_builtins = msgspec.to_builtins
_encode = msgspec.json.encode
_decode = msgspec.json.decode


class ViewError(InvalidObject):
    """A tree doesn't fit its class, e.g. because a required field is missing.

    Raised before schema validation, so `errors` are the schema's violations; if there
    are none, the error of the class.
    """


def view(tree: Tree, cls: type[T]) -> T:
    """The tree as an object of a declared class. Fields that the class doesn't have are left out.

    The tree should be pruned and defaulted. A view has the class's defaults too, but they aren't added to the tree.
    Raises `ViewError`.
    """
    plan: TidyPlan = cls.__dict__.get("__plan__") or plan_of(cls)
    try:
        # free JSON would be shared with the tree, so such a class is read from a copy
        return _convert(_decode(_encode(tree)) if plan.free else tree, cls)
    except msgspec.ValidationError as error:
        raise _view_error(tree, cls, error) from error


def wire(model: Any) -> Tree:
    """An object of a declared class as a tree, with apiVersion and kind first."""
    cls = type(model)
    declaration: Declared = cls.__declared__
    return {"apiVersion": declaration.gvk.api_version, "kind": declaration.kind, **builtins_of(model)}


def builtins_of(model: Any) -> Tree:
    """The fields of a Model as a tree, with times and floats in Kubernetes' spelling."""
    tree: Tree = _to_builtins(model)
    plan: TidyPlan = type(model).__dict__.get("__plan__") or plan_of(type(model))
    if plan.tidy:
        tidy(tree, plan.tidy)
    return tree


_AT = re.compile(r" - at `\$(.*)`$")


def _view_error(tree: Tree, cls: Any, error: msgspec.ValidationError) -> ViewError:
    declaration = cls.__dict__.get("__declared__")
    kind = GroupKind("", cls.__name__)
    errors: list[FieldError] = []
    if isinstance(declaration, Declared):
        kind = GroupKind(declaration.group, declaration.kind)
        errors = _checker(cls, declaration).validate(tree)
    metadata = tree.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return ViewError(kind, name if isinstance(name, str) else "", errors or [_field_error(tree, str(error))])


def _checker(cls: Any, declaration: Declared) -> CompiledVersion:
    """The compiled schema of this class, cached on the class."""
    checker = cls.__dict__.get("__checker__")
    if not isinstance(checker, CompiledVersion):
        version = VersionDefinition(declaration.version, object_schema(cls))
        names = Names(declaration.kind.lower(), declaration.kind)
        alone = ResourceDefinition(
            declaration.group, names, "Namespaced", (version,), declaration.version, declaration.version
        )
        checker = compile_version(alone, declaration.version)
        cls.__checker__ = checker
    return checker


def _field_error(tree: Tree, text: str) -> FieldError:
    match = _AT.search(text)
    path = (match[1] if match else "").replace("[...]", "").lstrip(".")
    return Invalid(path, _value_at(tree, path), _AT.sub("", text).replace("`", ""))


def _value_at(tree: Any, path: str) -> Any:
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(tree, dict):
            tree = tree.get(step)
        elif isinstance(tree, list) and step.isdigit() and int(step) < len(tree):
            tree = tree[int(step)]
        else:
            return None
    return tree
