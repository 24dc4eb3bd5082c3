"""Leases, with the field numbers of Kubernetes' own, so that its Go type reads them in protobuf."""

from __future__ import annotations

from typing import Annotated

from oarlock import APIServer, Model, Proto, Resource


class LeaseSpec(Model):
    """Who holds a lease, and for how long."""

    holder_identity: Annotated[str | None, Proto(1)] = None
    lease_duration_seconds: Annotated[int | None, Proto(2)] = None
    lease_transitions: Annotated[int | None, Proto(5)] = None


class Lease(Resource, group="coordination.k8s.io", version="v1"):
    """A lease."""

    spec: Annotated[LeaseSpec, Proto(2)] = LeaseSpec()


app = APIServer(serve=[Lease])
