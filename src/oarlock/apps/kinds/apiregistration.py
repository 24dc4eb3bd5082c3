"""``apiregistration.k8s.io``: which server answers for a group and version.

Source: Kubernetes API reference, v1. See also: ``apps.aggregation``, what the server does with them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from oarlock.apps.kinds.common.columns import AGE
from oarlock.apps.kinds.meta import Text
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import Doc, Format, ListMap, Name, NullIfAbsent, OmitEmpty, PatchMerge
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

GROUP = "apiregistration.k8s.io"

AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
"""The label of APIServices that the server keeps itself: ``onstart`` or ``true``."""

URL_ANNOTATION = "oarlock.dev/url"
"""Where the backend is when there is no cluster network: ``https://host:port``, in place of the Service's addresses."""


class ServiceReference(Model):
    """The Service of a backend."""

    namespace: Text = ""
    name: Text = ""
    port: Annotated[int | None, Format("int32")] = None


class APIServiceSpec(Model):
    """Which group and version, and where its requests go: to a Service, or to this server if none is named."""

    service: ServiceReference | None = None
    group: Text = ""
    version: Text = ""
    insecure_skip_tls_verify: Annotated[
        bool,
        Name("insecureSkipTLSVerify"),
        OmitEmpty,
        Doc("Don't verify the backend's certificate. Not recommended: anybody in between can answer."),
    ] = False
    ca_bundle: Annotated[
        str | None, Format("byte"), Doc("The authorities (PEM) of its certificate; the system's unless given.")
    ] = None
    group_priority_minimum: Annotated[int, Format("int32"), Doc("Groups with a higher one come first.")] = 0
    version_priority: Annotated[int, Format("int32"), Doc("Versions of a group with a higher one come first.")] = 0


class APIServiceCondition(Model):
    """How the backend is."""

    type: str = ""
    status: str = ""
    last_transition_time: Annotated[datetime | None, NullIfAbsent] = None
    reason: Text = ""
    message: Text = ""


class APIServiceStatus(Model):
    """Whether requests reach the backend."""

    conditions: Annotated[list[APIServiceCondition], OmitEmpty, ListMap("type"), PatchMerge("type")] = []


_AVAILABLE = (
    "self.?status.conditions.orValue([]).filter(c, c.type == 'Available')"
    ".map(c, c.status == 'True' ? 'True' : c.status + ' (' + c.?reason.orValue('') + ')').join('')"
)


class APIService(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    categories=["api-extensions"],
    name_rule="path-segment",
    generation=False,
    unconditional_update=False,
    status_subresource=True,
    columns=[
        Column(
            "Service",
            expression="has(self.spec.service) ? self.spec.service.namespace + '/' + self.spec.service.name : 'Local'",
            description="The reference to the service that hosts this API endpoint.",
        ),
        Column("Available", expression=_AVAILABLE, description="Whether this service is available."),
        AGE,
    ],
):
    """Registers a server for a group and version."""

    spec: APIServiceSpec = APIServiceSpec()
    status: APIServiceStatus | None = None
