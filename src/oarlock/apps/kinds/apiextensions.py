"""``apiextensions.k8s.io``: definitions of resources as objects.

Source: Kubernetes API reference, v1. See also: ``apps.crds``, what the server does with them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from oarlock.apps.kinds.meta import Text
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import JSON, Atomic, Doc, Format, ListMap, Name, NullIfAbsent, OmitEmpty
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

GROUP = "apiextensions.k8s.io"

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""Keeps a deleted definition until there are no objects of its kind."""


class CustomResourceDefinitionNames(Model):
    """How the resource is called in URLs, in objects and by people."""

    plural: str = ""
    singular: Text = ""
    short_names: Annotated[list[str], OmitEmpty, Atomic] = []
    kind: str = ""
    list_kind: Text = ""
    categories: Annotated[list[str], OmitEmpty, Atomic] = []


class CustomResourceValidation(Model):
    """What objects are like."""

    open_api_v3_schema: Annotated[
        JSON | None, Name("openAPIV3Schema"), Doc("An OpenAPI v3 schema, which must be structural.")
    ] = None


class CustomResourceSubresourceStatus(Model):
    """Turns the status subresource on."""


class CustomResourceSubresourceScale(Model):
    """Where the fields of the scale subresource are in an object."""

    spec_replicas_path: str = ""
    status_replicas_path: str = ""
    label_selector_path: str | None = None


class CustomResourceSubresources(Model):
    """Which subresources there are."""

    status: CustomResourceSubresourceStatus | None = None
    scale: CustomResourceSubresourceScale | None = None


class CustomResourceColumnDefinition(Model):
    """A column of kubectl's tables."""

    name: str = ""
    type: str = ""
    format: Text = ""
    description: Text = ""
    priority: Annotated[int, Format("int32"), OmitEmpty] = 0
    json_path: str = ""


class SelectableField(Model):
    """A field that field selectors may name."""

    json_path: str = ""


class CustomResourceDefinitionVersion(Model):
    """One version of the resource."""

    name: str = ""
    served: bool = False
    storage: bool = False
    deprecated: Annotated[bool, OmitEmpty] = False
    deprecation_warning: str | None = None
    validation: Annotated[CustomResourceValidation | None, Name("schema")] = None
    subresources: CustomResourceSubresources | None = None
    additional_printer_columns: Annotated[list[CustomResourceColumnDefinition], OmitEmpty, Atomic] = []
    selectable_fields: Annotated[list[SelectableField], OmitEmpty, Atomic] = []


class WebhookServiceReference(Model):
    """The Service of a webhook."""

    namespace: str = ""
    name: str = ""
    path: str | None = None
    port: Annotated[int | None, Format("int32")] = None


class WebhookClientConfig(Model):
    """Where a webhook is: a URL or a Service."""

    url: str | None = None
    service: WebhookServiceReference | None = None
    ca_bundle: Annotated[bytes, OmitEmpty] = b""


class WebhookConversion(Model):
    """A webhook that converts objects, and the versions of ConversionReview that it understands."""

    client_config: WebhookClientConfig | None = None
    conversion_review_versions: Annotated[list[str] | None, NullIfAbsent, Atomic] = None


class CustomResourceConversion(Model):
    """How objects are converted between versions: None or Webhook."""

    strategy: str = ""
    webhook: WebhookConversion | None = None


class CustomResourceDefinitionSpec(Model):
    """What the resource is like."""

    group: str = ""
    names: CustomResourceDefinitionNames = CustomResourceDefinitionNames()
    scope: str = ""
    versions: Annotated[list[CustomResourceDefinitionVersion] | None, NullIfAbsent, Atomic] = None
    conversion: CustomResourceConversion | None = None
    preserve_unknown_fields: Annotated[bool, OmitEmpty] = False


class CustomResourceDefinitionCondition(Model):
    """One aspect of a definition's state."""

    type: str = ""
    status: str = ""
    last_transition_time: Annotated[datetime | None, NullIfAbsent] = None
    reason: Text = ""
    message: Text = ""
    observed_generation: Annotated[int, OmitEmpty] = 0


class CustomResourceDefinitionStatus(Model):
    """Whether the resource is served, and under which names."""

    conditions: Annotated[list[CustomResourceDefinitionCondition] | None, NullIfAbsent, ListMap("type")] = None
    accepted_names: CustomResourceDefinitionNames = CustomResourceDefinitionNames()
    stored_versions: Annotated[list[str] | None, NullIfAbsent, Atomic] = None
    observed_generation: Annotated[int, OmitEmpty] = 0


class CustomResourceDefinition(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    short_names=["crd", "crds"],
    categories=["api-extensions"],
    status_subresource=True,
    cleanup_finalizer=CLEANUP_FINALIZER,
    columns=[Column("Created At", ".metadata.creationTimestamp", "date", relative=False)],
):
    """Defines a resource, which is served while this object exists. Its name is <plural>.<group>."""

    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()
