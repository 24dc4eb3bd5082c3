"""PriorityClasses of scheduling.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of
from oarlock.apps.kinds.common.columns import age, flag, number, text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, NotSupported
from oarlock.meta.json_trees import Tree

__all__ = ["PRIORITY_CLASS"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    name, value = new["metadata"].get("name", ""), new.get("value", 0)
    if old is None and name.startswith("system-") and ctx.user.name != "system:apiserver":
        why = "priority class names with 'system-' prefix are reserved for system use only"
        yield Forbidden("metadata.name", f"{why}. error: {name} is not a known system priority class")
    policy = new.get("preemptionPolicy")
    if policy is not None and policy not in ("PreemptLowerPriority", "Never"):
        yield NotSupported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    if not name.startswith("system-") and value > 10**9:
        yield Forbidden("value", f"maximum allowed value of a user defined priority is {10**9}")
    if old is not None and value != old.get("value", 0):
        yield Forbidden("value", "may not be changed in an update.")


def _fill_in(tree: Tree) -> None:
    tree.setdefault("value", 0)


def _row(tree: Tree, now: float) -> list[Any]:
    policy = tree.get("preemptionPolicy", "")
    return [tree.get("value", 0), bool(tree.get("globalDefault")), age_of(tree, now), policy]


PRIORITY_CLASS: Final = KindDeclaration(
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    short_names=("pc",),
    namespaced=False,
    generation=True,
    columns=(number("Value"), flag("Global-Default"), age(), text("PreemptionPolicy")),
    default=_fill_in,
    validate=_validate,
    row=_row,
)
