"""PriorityClasses of scheduling.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, age_of, flag, number, text
from oarlock.apps.kinds.common.values import unchanged
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, NotSupported
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    name, value = new["metadata"].get("name", ""), new.get("value", 0)
    wrong = _why_not_of_the_system(new, name, value) if name.startswith("system-") else ""
    if wrong:
        why = "priority class names with 'system-' prefix are reserved for system use only"
        yield Forbidden("metadata.name", f"{why}. error: {wrong}")
    policy = new.get("preemptionPolicy")
    if policy is not None and policy not in ("PreemptLowerPriority", "Never"):
        yield NotSupported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    if not name.startswith("system-") and value > 10**9:
        yield Forbidden("value", f"maximum allowed value of a user defined priority is {10**9}")
    if old is not None and value != old.get("value", 0):
        yield Forbidden("value", "may not be changed in an update.")
    if old is not None:
        yield from unchanged(new, old, "", "preemptionPolicy")


_OF_THE_SYSTEM: Final = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


def _why_not_of_the_system(new: Tree, name: str, value: int) -> str:
    """What a class that has the name of one of Kubernetes' own has otherwise; empty if nothing."""
    known = _OF_THE_SYSTEM.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if new.get("globalDefault") else ""


def _begin(new: Tree) -> None:
    """Keep the generation at 1: what matters of a class never changes."""
    new["metadata"]["generation"] = 1


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
    columns=(number("Value"), flag("Global-Default"), age(), text("PreemptionPolicy")),
    default=_fill_in,
    prepare=_begin,
    validate=_validate,
    row=_row,
)

KINDS: Final = (PRIORITY_CLASS,)
