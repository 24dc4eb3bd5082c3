"""RuntimeClasses of node.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import age, text, values_at
from oarlock.apps.kinds.common.trees import at, go_value
from oarlock.apps.kinds.common.values import check_labels, check_text, unchanged
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.placement import check_tolerations
from oarlock.apps.kinds.pods.resources import check_container_resources
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    handler = new.get("handler") or ""
    if not handler:
        yield Required("handler")
    else:
        yield from check_text(names.dns1123_label, handler, "handler")
    yield from check_container_resources({"limits": at(new, "overhead.podFixed", {})}, (), "overhead")
    yield from check_labels(at(new, "scheduling.nodeSelector"), "scheduling.nodeSelector")
    tolerations = at(new, "scheduling.tolerations", [])
    yield from check_tolerations(tolerations, "scheduling.tolerations")
    known = set()
    for i, toleration in enumerate(tolerations):
        same = frozenset(toleration.items())
        if same in known:
            yield Duplicate(f"scheduling.tolerations[{i}]", go_value("Toleration", toleration))
        known.add(same)
    if old is not None:
        yield from unchanged(new, old, "", "handler")


RUNTIME_CLASS: Final = KindDeclaration(
    "node.k8s.io",
    "v1",
    "RuntimeClass",
    "runtimeclasses",
    namespaced=False,
    columns=(text("Handler"), age()),
    row=values_at("handler"),
    validate=_validate,
)

KINDS: Final = (RUNTIME_CLASS,)
