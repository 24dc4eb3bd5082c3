"""IngressClasses of networking.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import NONE, age, age_of, text
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_domain_path, check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, NotSupported, Required, TooLong
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    controller, given = spec.get("controller") or "", spec.get("parameters")
    if len(controller) > 250:
        yield TooLong("spec.controller", 250)
    yield from check_domain_path(controller, "spec.controller")
    if given is not None:
        yield from _check_parameters(given, "spec.parameters")
    if old is not None:
        yield from unchanged(spec, old.get("spec") or {}, "spec", "controller")


def _check_parameters(given: Tree, path: str) -> Iterator[FieldError]:
    if given.get("apiGroup") is not None:
        yield from check_text(names.dns1123_subdomain, given["apiGroup"], f"{path}.apiGroup")
    for field in ("kind", "name"):
        if not given.get(field):
            yield Required(f"{path}.{field}")
        else:
            yield from check_text(names.path_segment_name, given[field], f"{path}.{field}")
    scope, namespace = given.get("scope"), given.get("namespace")
    if scope is None:
        yield Required(f"{path}.scope")
    elif scope not in ("Cluster", "Namespace"):
        yield NotSupported(f"{path}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace":
        if not namespace:
            yield Required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            yield from check_text(names.dns1123_label, namespace, f"{path}.namespace")
    elif namespace is not None:
        yield Forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


def _row(tree: Tree, now: float) -> list[Any]:
    given = at(tree, "spec.parameters")
    group = f".{given['apiGroup']}" if given and given.get("apiGroup") else ""
    parameters = f"{given.get('kind', '')}{group}/{given.get('name', '')}" if given else NONE
    return [at(tree, "spec.controller", ""), parameters, age_of(tree, now)]


INGRESS_CLASS: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "IngressClass",
    "ingressclasses",
    namespaced=False,
    generation=True,
    columns=(text("Controller"), text("Parameters"), age()),
    row=_row,
    validate=_validate,
)
