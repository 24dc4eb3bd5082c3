"""The names for parts of a control plane, in addition to those of `oarlock`, its client and its controllers.

A part is a function. It gets `PartSurroundings` and returns a `ControlPlanePart`: kinds, admission plugins, informers,
controllers, and code to run at the start. ``ControlPlane(parts=[…])`` adds it to the built-in parts, which are made in
the same way. A name is loaded with its module when it is first used. See also: docs/extending.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oarlock.meta.lazy_names import lazy_names

if TYPE_CHECKING:
    from oarlock.apps.controlplane.options import ControlPlaneOptions
    from oarlock.apps.controlplane.part import ControlPlanePart, InstalledParts, MakePart, PartSurroundings
    from oarlock.apps.kinds.common.late_client import LateClient
    from oarlock.apps.kinds.declaration import KindDeclaration, SubresourceDeclaration
    from oarlock.apps.kinds.pods.subresources import PodHooks
    from oarlock.apps.workloads.workload_admission import CompletingPlugin
    from oarlock.client.clock import Flag, SystemClock, TimerClock
    from oarlock.client.informers.observers import Observer, ReadableObject
    from oarlock.client.informers.partial_objects import (
        ByteInformer,
        MetadataInformer,
        OwnerLink,
        PartialMetadata,
        PartialObject,
    )
    from oarlock.client.kinds import ResourceRef
    from oarlock.client.webhooks import WebhookCalls, WebhookError, WebhookService, WebhookTarget
    from oarlock.codec.errors import DecodeError
    from oarlock.controllers.events import EventSender
    from oarlock.controllers.metrics import ControllerNumbers
    from oarlock.controllers.running.leases import LeaseElection
    from oarlock.controllers.running.work_queue import WorkQueue
    from oarlock.endpoints.catalog import Catalog, CatalogEntry, CatalogError, CatalogGroup, Proxied
    from oarlock.endpoints.http import BrokenBody, Request, Response, Stream, Tunnel
    from oarlock.endpoints.request_state import RequestState
    from oarlock.meta.go.gotext import quote
    from oarlock.meta.json_trees import ReadOnlyTree, Tree
    from oarlock.meta.kinds import BUILT_IN_GROUPS, GroupKind, GroupResource, GroupVersion, GroupVersionKind
    from oarlock.meta.labels import Selector, SelectorError, from_label_selector
    from oarlock.meta.quantities import QuantityError
    from oarlock.meta.times import TimeError, human_duration, parse_rfc3339, rfc3339
    from oarlock.net.trust import trusting
    from oarlock.net.url import UrlError, parse_url
    from oarlock.policy.admission.chain import (
        AdmissionPlugin,
        Mutating,
        Reinvocable,
        ReinvokedPlugin,
        ReservingPlugin,
        ValidatingPlugin,
        plugin_name,
    )
    from oarlock.policy.admission.counts import AdmissionCounts
    from oarlock.policy.admission.expressions import ExpressionRunner, ReviewedRequest
    from oarlock.policy.admission.plugin import AnyPlugin
    from oarlock.policy.authn.tokens.token_issuer import TokenIssuer
    from oarlock.policy.authz.authorizer import AccessRule, Outcome
    from oarlock.policy.authz.union import MASTERS, Access
    from oarlock.registry.conversions import (
        ConversionError,
        Converter,
        NoConversion,
        copy_tree,
        copy_unless_pure,
    )
    from oarlock.registry.hooks.object_hooks import subresource_hooks
    from oarlock.registry.hooks.subresource import DeclaredSubresource, find_subresources
    from oarlock.registry.served import AnyHook, Claims, Hooks, Reserve, SubresourceCall, SubresourceHook
    from oarlock.registry.stored.migration import Progress
    from oarlock.registry.stored.records import DefinitionRecords, StoreTooNew
    from oarlock.registry.workers import Offload, aside
    from oarlock.registry.write.scale import Scaling
    from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub
    from oarlock.schema.cel.expression import DeclaredVariable
    from oarlock.schema.cel.problems import CelError
    from oarlock.schema.definition import Names, RowCells, Schema, Subresource, VersionDefinition
    from oarlock.schema.structural.nodes import Node, SchemaError
    from oarlock.schema.types.declaring import HookError, KeywordError, did_you_mean
    from oarlock.schema.types.resources import declared
    from oarlock.schema.types.views import builtins_of, view
    from oarlock.server.assembly.own_work import Runnable, ServerHook
    from oarlock.server.config import ServerConfig
    from oarlock.server.description import CatalogSource, LiveCatalog, ServerAddress
    from oarlock.server.filters.filter import plain
    from oarlock.server.options.option import ConfigError, OptionGroup, option
    from oarlock.server.options.types import (
        BooleanType,
        DurationType,
        IntegerType,
        OptionType,
        PathType,
        StringListType,
        StringType,
    )
    from oarlock.storage.backend import Backend, Rev, StorageError
    from oarlock.storage.pacing import Pacer

__all__ = [
    "BUILT_IN_GROUPS",
    "MASTERS",
    "NOT_AT_HAND",
    "Access",
    "AccessRule",
    "AdmissionCounts",
    "AdmissionPlugin",
    "AdmissionRequest",
    "AnyHook",
    "AnyPlugin",
    "Backend",
    "BooleanType",
    "BrokenBody",
    "ByteInformer",
    "Catalog",
    "CatalogEntry",
    "CatalogError",
    "CatalogGroup",
    "CatalogSource",
    "CelError",
    "Claims",
    "CompletingPlugin",
    "ConfigError",
    "ControlPlaneOptions",
    "ControlPlanePart",
    "ControllerNumbers",
    "ConversionError",
    "Converter",
    "DeclaredSubresource",
    "DeclaredVariable",
    "DecodeError",
    "DefinitionRecords",
    "DurationType",
    "EventSender",
    "ExpressionRunner",
    "Flag",
    "GroupKind",
    "GroupResource",
    "GroupVersion",
    "GroupVersionKind",
    "HookError",
    "Hooks",
    "Hub",
    "InstalledParts",
    "IntegerType",
    "KeywordError",
    "KindDeclaration",
    "LateClient",
    "LeaseElection",
    "LiveCatalog",
    "MakePart",
    "MetadataInformer",
    "Mutating",
    "Names",
    "NoConversion",
    "Node",
    "Observer",
    "Offload",
    "OptionGroup",
    "OptionType",
    "Outcome",
    "OwnerLink",
    "Pacer",
    "PartSurroundings",
    "PartialMetadata",
    "PartialObject",
    "PathType",
    "PodHooks",
    "Progress",
    "Proxied",
    "QuantityError",
    "ReadOnlyTree",
    "ReadableObject",
    "Reinvocable",
    "ReinvokedPlugin",
    "Request",
    "RequestState",
    "Reserve",
    "ReservingPlugin",
    "ResourceRef",
    "Response",
    "Rev",
    "ReviewedRequest",
    "RowCells",
    "Runnable",
    "Scaling",
    "Schema",
    "SchemaError",
    "Selector",
    "SelectorError",
    "ServerAddress",
    "ServerConfig",
    "ServerHook",
    "StorageError",
    "StoreTooNew",
    "Stream",
    "StringListType",
    "StringType",
    "Subresource",
    "SubresourceCall",
    "SubresourceDeclaration",
    "SubresourceHook",
    "SystemClock",
    "TimeError",
    "TimerClock",
    "TokenIssuer",
    "Tree",
    "Tunnel",
    "UrlError",
    "ValidatingPlugin",
    "VersionDefinition",
    "WebhookCalls",
    "WebhookError",
    "WebhookService",
    "WebhookTarget",
    "WorkQueue",
    "aside",
    "builtins_of",
    "copy_tree",
    "copy_unless_pure",
    "declared",
    "did_you_mean",
    "find_subresources",
    "from_label_selector",
    "human_duration",
    "option",
    "parse_rfc3339",
    "parse_url",
    "plain",
    "plugin_name",
    "quote",
    "rfc3339",
    "subresource_hooks",
    "trusting",
    "view",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apps.controlplane.part": "ControlPlanePart InstalledParts MakePart PartSurroundings",
            "apps.controlplane.options": "ControlPlaneOptions",
            "apps.kinds.common.late_client": "LateClient",
            "apps.kinds.declaration": "KindDeclaration SubresourceDeclaration",
            "apps.kinds.pods.subresources": "PodHooks",
            "apps.workloads.workload_admission": "CompletingPlugin",
            "client.clock": "Flag SystemClock TimerClock",
            "client.kinds": "ResourceRef",
            "client.informers.observers": "Observer ReadableObject",
            "client.informers.partial_objects": "ByteInformer MetadataInformer OwnerLink PartialMetadata PartialObject",
            "client.webhooks": "WebhookService WebhookCalls WebhookError WebhookTarget",
            "codec.errors": "DecodeError",
            "controllers.events": "EventSender",
            "controllers.metrics": "ControllerNumbers",
            "controllers.running.leases": "LeaseElection",
            "controllers.running.work_queue": "WorkQueue",
            "endpoints.catalog": "Catalog CatalogEntry CatalogError CatalogGroup Proxied",
            "endpoints.http": "BrokenBody Request Response Stream Tunnel",
            "endpoints.request_state": "RequestState",
            "meta.go.gotext": "quote",
            "meta.json_trees": "ReadOnlyTree Tree",
            "meta.kinds": "BUILT_IN_GROUPS GroupKind GroupResource GroupVersion GroupVersionKind",
            "meta.labels": "Selector SelectorError from_label_selector",
            "meta.quantities": "QuantityError",
            "meta.times": "TimeError human_duration parse_rfc3339 rfc3339",
            "net.trust": "trusting",
            "net.url": "UrlError parse_url",
            "policy.admission.chain": (
                "AdmissionPlugin Mutating Reinvocable ReinvokedPlugin ReservingPlugin ValidatingPlugin plugin_name"
            ),
            "policy.admission.counts": "AdmissionCounts",
            "policy.admission.expressions": "ExpressionRunner ReviewedRequest",
            "policy.admission.plugin": "AnyPlugin",
            "policy.authn.tokens.token_issuer": "TokenIssuer",
            "policy.authz.authorizer": "AccessRule Outcome",
            "policy.authz.union": "MASTERS Access",
            "registry.conversions": "ConversionError Converter NoConversion copy_tree copy_unless_pure",
            "registry.hooks.subresource": "DeclaredSubresource find_subresources",
            "registry.hooks.object_hooks": "subresource_hooks",
            "registry.served": "AnyHook Claims Hooks Reserve SubresourceCall SubresourceHook",
            "registry.stored.migration": "Progress",
            "registry.stored.records": "DefinitionRecords StoreTooNew",
            "registry.workers": "Offload aside",
            "registry.write.write_request": "AdmissionRequest Hub NOT_AT_HAND",
            "registry.write.scale": "Scaling",
            "schema.cel.expression": "DeclaredVariable",
            "schema.cel.problems": "CelError",
            "schema.definition": "Names RowCells Schema Subresource VersionDefinition",
            "schema.structural.nodes": "Node SchemaError",
            "schema.types.declaring": "HookError KeywordError did_you_mean",
            "schema.types.resources": "declared",
            "schema.types.views": "builtins_of view",
            "server.description": "CatalogSource LiveCatalog ServerAddress",
            "server.assembly.own_work": "Runnable ServerHook",
            "server.config": "ServerConfig",
            "server.filters.filter": "plain",
            "server.options.option": "ConfigError OptionGroup option",
            "server.options.types": (
                "BooleanType DurationType IntegerType OptionType PathType StringListType StringType"
            ),
            "storage.backend": "Backend Rev StorageError",
            "storage.pacing": "Pacer",
        },
        root="oarlock",
    )
