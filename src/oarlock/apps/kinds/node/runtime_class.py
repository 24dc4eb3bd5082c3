"""RuntimeClasses of node.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.cells import values_at
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["RUNTIME_CLASS"]


RUNTIME_CLASS: Final = KindDeclaration(
    "node.k8s.io",
    "v1",
    "RuntimeClass",
    "runtimeclasses",
    namespaced=False,
    columns=(text("Handler"), age()),
    validate=immutable("handler"),
    row=values_at("handler"),
)
