"""ComponentStatuses, an old kind: whether what a control plane is made of works. Here that is the store.

Source: Kubernetes API reference, v1 ComponentStatus.
"""

from __future__ import annotations

from collections.abc import Sequence

from oarlock.apps.kinds.columns import AGE
from oarlock.apps.kinds.meta import Text
from oarlock.meta.context import Context
from oarlock.registry.hooks.virtual_collection import VirtualCollection
from oarlock.schema.definition import Column
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model, ObjectMeta

__all__ = ["ComponentCondition", "ComponentStatus", "ComponentStatuses"]

STORE = "etcd-0"
"""What Kubernetes calls its store."""


class ComponentCondition(Model):
    """Whether a component works."""

    type: str
    status: str
    message: Text = ""
    error: Text = ""


class ComponentStatus(
    Resource,
    group="",
    version="v1",
    scope="Cluster",
    plural="componentstatuses",
    short_names=["cs"],
    generation=False,
    deprecated="v1 ComponentStatus is deprecated in v1.19+",
    columns=[
        Column("Status", ".conditions[0].status"),
        Column("Message", ".conditions[0].message"),
        Column("Error", ".conditions[0].error"),
        AGE,
    ],
):
    """Whether a component of the control plane works."""

    conditions: list[ComponentCondition] = []


class ComponentStatuses(VirtualCollection[ComponentStatus]):
    """Says that the store works, which else nothing would answer."""

    async def get(self, name: str, ctx: Context) -> ComponentStatus | None:
        return _store() if name == STORE else None

    async def list(self, ctx: Context) -> Sequence[ComponentStatus]:
        return [_store()]


def _store() -> ComponentStatus:
    healthy = ComponentCondition(type="Healthy", status="True", message="ok")
    return ComponentStatus(metadata=ObjectMeta(name=STORE), conditions=[healthy])
