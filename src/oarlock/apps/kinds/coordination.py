"""``coordination.k8s.io``: leases, by which the processes of a program agree on who acts.

Source: Kubernetes API reference, Lease v1. See also: ``controlplane.leases``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from oarlock.apps.kinds.common.columns import AGE
from oarlock.apps.kinds.meta import Text
from oarlock.meta.context import Context
from oarlock.registry.hooks.collection import VirtualCollection
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import Doc, Format, MicroTime
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model, ObjectMeta

_HOLDER = (
    "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, "
    "the holder identity must be equal to the elected LeaseCandidate.metadata.name field."
)


class LeaseSpec(Model):
    """Who holds a lease, since when, and for how long."""

    holder_identity: Annotated[str | None, Doc(_HOLDER)] = None
    lease_duration_seconds: Annotated[
        int | None, Format("int32"), Doc("How long the lease is valid after its last renewal, in seconds.")
    ] = None
    acquire_time: Annotated[MicroTime | None, Doc("When its holder acquired it.")] = None
    renew_time: Annotated[MicroTime | None, Doc("When its holder renewed it last.")] = None
    lease_transitions: Annotated[
        int | None, Format("int32"), Doc("How often it has passed from one holder to another.")
    ] = None
    strategy: Annotated[str | None, Doc("Not used: it is dropped.")] = None
    preferred_holder: Annotated[str | None, Doc("Not used: it is dropped.")] = None


class Lease(
    Resource,
    group="coordination.k8s.io",
    version="v1",
    generation=False,
    create_on_update=True,
    columns=[Column("Holder", ".spec.holderIdentity", description=_HOLDER), AGE],
):
    """A lease that one holder has at a time."""

    spec: LeaseSpec = LeaseSpec()

    def default(self) -> None:
        self.spec.strategy = self.spec.preferred_holder = None


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
