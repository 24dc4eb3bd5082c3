"""`TidyPlan`: post-processing of objects that msgspec can't do, computed once per class.

A plan has the places of times and floats (Kubernetes' spelling on the wire isn't msgspec's), of
free JSON (it must not be shared with the source tree) and of Models (a hook's changes are
found by their identity). Must not know: what a hook is. See also: `views`.
"""

from __future__ import annotations

import typing
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from oarlock.meta.dataclass import dataclass
from oarlock.schema.types import reflect
from oarlock.schema.types.markers import ListMap, MicroTimeMark, NullIfAbsent

__all__ = ["TidyNode", "TidyPlan", "micro_time", "plan_of", "rfc3339", "tidy"]


@dataclass(frozen=True, slots=True)
class TidyNode:
    """The post-processing at one place. `keys` are the wire names of the map keys of a list; `null`: absent is null."""

    kind: Literal["as it is", "time", "micro time", "float", "list", "map", "model"]
    inner: Any = None
    keys: tuple[str, ...] = ()
    null: bool = False


@dataclass(slots=True)
class TidyPlan:
    """`tidy`: wire name → Node for what a fresh tree needs.

    `models`: (attribute, wire name, Node) of what holds Models. `free`: somewhere there is free JSON.
    """

    cls: type
    tidy: dict[str, TidyNode] = field(default_factory=dict)
    models: list[tuple[str, str, TidyNode]] = field(default_factory=list)
    free: bool = False


_ATTRIBUTE: Final = "__plan__"


def plan_of(cls: Any) -> TidyPlan:
    """The plan of a Struct, kept on the class itself."""
    plan = cls.__dict__.get(_ATTRIBUTE)
    if plan is None:
        plan = _make(cls, ())
        setattr(cls, _ATTRIBUTE, plan)
    return plan  # type: ignore[no-any-return]


def _make(cls: Any, inside: tuple[type, ...]) -> TidyPlan:
    plan = TidyPlan(cls)
    for f in reflect.fields_of(cls):
        tidy, models = _node(f.hint, plan, (*inside, cls))
        if NullIfAbsent in reflect.take_apart(f.hint).markers:
            tidy = replace(tidy or TidyNode("as it is"), null=True)
        if tidy is not None:
            plan.tidy[f.wire] = tidy
        if models is not None:
            plan.models.append((f.name, f.wire, models))
    return plan


def _node(hint: Any, plan: TidyPlan, inside: tuple[type, ...]) -> tuple[TidyNode | None, TidyNode | None]:
    """The TidyNode for times and floats, and the one for Models, at a hint; None if not needed."""
    apart = reflect.take_apart(hint)
    base = apart.base
    if base is datetime:
        return TidyNode("micro time" if MicroTimeMark() in apart.markers else "time"), None
    if base is float:
        return TidyNode("float"), None
    if base in (Any, dict):
        plan.free = True
        return None, None
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        if base in inside:
            # a recursive type was let through as free JSON: nothing is known of its depth
            return None, None
        inner = _make(base, inside)
        plan.free |= inner.free
        return (TidyNode("model", inner.tidy) if inner.tidy else None), TidyNode("model", inner)
    origin, args = typing.get_origin(base), typing.get_args(base)
    if origin not in (list, dict):
        return None, None
    kind: Literal["list", "map"] = "list" if origin is list else "map"
    keys = next((m.keys for m in apart.markers if isinstance(m, ListMap)), ())
    tidy, models = _node(args[-1], plan, inside)
    return (TidyNode(kind, tidy) if tidy else None), (TidyNode(kind, models, keys) if models else None)


def tidy(tree: Any, nodes: dict[str, TidyNode]) -> None:
    """Rewrite times and floats of a fresh tree as Kubernetes spells them, in place."""
    for name, node in nodes.items():
        value = tree.get(name)
        if value is not None:
            tree[name] = _tidied(value, node)
        elif node.null:
            tree[name] = None


def _tidied(value: Any, node: TidyNode) -> Any:
    kind = node.kind
    if value is None or kind == "as it is":
        return value
    if kind == "time":
        return rfc3339(value)
    if kind == "micro time":
        return micro_time(value)
    if kind == "float":
        return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
    if kind == "model":
        tidy(value, node.inner)
        return value
    if kind == "list":
        return [_tidied(item, node.inner) for item in value]
    return {key: _tidied(item, node.inner) for key, item in value.items()}


def micro_time(text: str) -> str:
    """A time as Kubernetes' ``MicroTime`` is written: UTC, six digits of fraction, ``Z``. One without a zone is UTC."""
    if len(text) == 27 and text[26] == "Z":
        return text
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def rfc3339(text: str) -> str:
    """A time as Kubernetes' ``Time`` is written: UTC, whole seconds, ``Z``. A time without a zone is taken as UTC."""
    if len(text) == 20 and text[19] == "Z":
        return text
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"
