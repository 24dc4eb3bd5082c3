"""IPAddresses of networking.k8s.io."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, age_of, text
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_ip, check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if old is not None:
        yield from unchanged(new.get("spec") or {}, old.get("spec") or {}, "spec", "parentRef")
        return
    name, parent = at(new, "metadata.name", ""), at(new, "spec.parentRef")
    bad = list(check_ip(name, "metadata.name"))
    yield from bad
    canonical = name if bad else str(ipaddress.ip_address(name))
    if canonical != name:
        yield Invalid("metadata.name", name, f'must be in canonical form ("{canonical}")')
    if parent is None:
        yield Required("spec.parentRef")
        return
    if parent.get("group"):
        yield from check_text(names.dns1123_subdomain, parent["group"], "spec.parentRef.group")
    for field in ("resource", "name"):
        if not parent.get(field):
            yield Required(f"spec.parentRef.{field}")
        else:
            yield from check_text(names.path_segment_name, parent[field], f"spec.parentRef.{field}")
    if parent.get("namespace"):
        yield from check_text(names.path_segment_name, parent["namespace"], "spec.parentRef.namespace")


def _row(tree: Tree, now: float) -> list[Any]:
    parent = at(tree, "spec.parentRef", {})
    return ["/".join(parent[key] for key in ("resource", "namespace", "name") if parent.get(key)), age_of(tree, now)]


IP_ADDRESS: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "IPAddress",
    "ipaddresses",
    short_names=("ip",),
    namespaced=False,
    name_rule="path-segment",
    selectable=(".spec.parentRef.group", ".spec.parentRef.name", ".spec.parentRef.namespace"),
    columns=(text("ParentRef"), age()),
    row=_row,
    validate=_validate,
)
