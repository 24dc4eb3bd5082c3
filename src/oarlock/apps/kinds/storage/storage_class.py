"""StorageClasses of storage.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, age_of, flag, text
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.values import check_parameters, check_qualified_name
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree

_FIELDS: Final = ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if old is not None:
        yield from unchanged(new, old, "", *_FIELDS)
        return
    provisioner, policy, mode = (new.get(name) or "" for name in ("provisioner", "reclaimPolicy", "volumeBindingMode"))
    if not provisioner:
        yield Required("provisioner")
    else:
        for complaint in names.qualified_name(provisioner.lower()):
            yield Invalid("provisioner", provisioner, complaint)
    yield from check_parameters(new.get("parameters"), "parameters")
    if policy and policy not in ("Delete", "Retain"):
        yield NotSupported("reclaimPolicy", policy, ("Delete", "Retain"))
    if not mode:
        yield Required("volumeBindingMode")
    elif mode not in ("Immediate", "WaitForFirstConsumer"):
        yield NotSupported("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer"))
    known: set[object] = set()
    for i, term in enumerate(new.get("allowedTopologies") or ()):
        yield from _check_term(term, f"allowedTopologies[{i}]", known)


def _check_term(term: Tree, path: str, known: set[object]) -> Iterator[FieldError]:
    expressions, keys = term.get("matchLabelExpressions") or [], set()
    for i, expression in enumerate(expressions):
        where, key, values = f"{path}.matchLabelExpressions[{i}]", expression.get("key") or "", expression.get("values")
        if not values:
            yield Required(f"{where}.values")
        if len(set(values or ())) != len(values or ()):
            yield Duplicate(f"{where}.values", "")
        yield from check_qualified_name(key, f"{where}.key")
        if key in keys:
            yield Duplicate(f"{where}.key", key)
        keys.add(key)
    same = frozenset((expression.get("key"), frozenset(expression.get("values") or ())) for expression in expressions)
    if same in known or not expressions:
        yield Duplicate(f"{path}.matchLabelExpressions", "")
    known.add(same)


def _row(tree: Tree, now: float) -> list[Any]:
    texts = [tree.get("provisioner", ""), tree.get("reclaimPolicy", ""), tree.get("volumeBindingMode", "")]
    return [*texts, bool(tree.get("allowVolumeExpansion")), age_of(tree, now)]


STORAGE_CLASS: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "StorageClass",
    "storageclasses",
    short_names=("sc",),
    namespaced=False,
    delete_returns="object",
    columns=(
        text("Provisioner"),
        text("ReclaimPolicy"),
        text("VolumeBindingMode"),
        flag("AllowVolumeExpansion"),
        age(),
    ),
    row=_row,
    validate=_validate,
)
