"""oarlock: Kubernetes-style API servers in Python.

A `Resource` class declares a kind, a `StoredCollection` adds its code, an `APIServer` lists what is served. Names are
loaded when first used: importing your types loads no server.
Nothing inside the package imports this module. Next: ``schema.types.resources``, ``registry.hooks.collection``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oarlock.apps.api_server import APIServer
    from oarlock.apps.controlplane.control_plane import ControlPlane
    from oarlock.client.informers.informer import Informer
    from oarlock.meta import errors
    from oarlock.meta.context import Clock, Context, Target, User
    from oarlock.meta.errors import Denied
    from oarlock.meta.fielderrors import (
        Duplicate,
        FieldError,
        Forbidden,
        Invalid,
        NotFoundValue,
        NotSupported,
        Required,
        TooLong,
        TooMany,
    )
    from oarlock.meta.options import ListOptions, WatchOptions
    from oarlock.meta.quantities import format_quantity, parse_quantity
    from oarlock.policy.admission.plugin import Admission, PlacedPlugin, Review
    from oarlock.policy.authn.authenticator import Authenticator, BadCredentials, Credentials, Identity
    from oarlock.policy.authz.authorizer import Authorizer, Decision
    from oarlock.registry.hooks.channels import Channel, Channels, Pipe, TerminalSize
    from oarlock.registry.hooks.collection import StoredCollection, VirtualCollection
    from oarlock.registry.hooks.object_hooks import served_from
    from oarlock.registry.hooks.subresource import part, subresource
    from oarlock.registry.served import Served
    from oarlock.registry.virtual.pages import Page
    from oarlock.schema.definition import Column, DefaultRoles, ResourceDefinition, Rule, Scale
    from oarlock.schema.foreign.dataclasses import dataclass_shape
    from oarlock.schema.foreign.pydantic import pydantic_shape
    from oarlock.schema.foreign.shape import Foreign, Shape, ShapeError
    from oarlock.schema.types.declaring import DeclarationError
    from oarlock.schema.types.markers import (
        JSON,
        AlsoRequired,
        AsJSON,
        Atomic,
        Doc,
        Embedded,
        Format,
        Ge,
        Gt,
        IntOrString,
        Le,
        ListMap,
        ListSet,
        Lt,
        MaxItems,
        MaxLength,
        MaxProperties,
        MicroTime,
        MinItems,
        MinLength,
        MinProperties,
        MultipleOf,
        Name,
        Nullable,
        NullIfAbsent,
        OmitEmpty,
        OpenAPI,
        PatchMerge,
        PatchReplace,
        Pattern,
        Preserve,
        Proto,
        Quantity,
        RetainKeys,
        Unique,
    )
    from oarlock.schema.types.resources import Resource, Spoke
    from oarlock.schema.types.shapes import (
        Condition,
        Model,
        ObjectMeta,
        OwnerReference,
        field,
        find_condition,
        is_condition_true,
        remove_condition,
        replace,
        set_condition,
    )
    from oarlock.schema.types.views import same_fields, wire

__all__ = [
    "JSON",
    "APIServer",
    "Admission",
    "AlsoRequired",
    "AsJSON",
    "Atomic",
    "Authenticator",
    "Authorizer",
    "BadCredentials",
    "Channel",
    "Channels",
    "Clock",
    "Column",
    "Condition",
    "Context",
    "ControlPlane",
    "Credentials",
    "Decision",
    "DeclarationError",
    "DefaultRoles",
    "Denied",
    "Doc",
    "Duplicate",
    "Embedded",
    "FieldError",
    "Forbidden",
    "Foreign",
    "Format",
    "Ge",
    "Gt",
    "Identity",
    "Informer",
    "IntOrString",
    "Invalid",
    "Le",
    "ListMap",
    "ListOptions",
    "ListSet",
    "Lt",
    "MaxItems",
    "MaxLength",
    "MaxProperties",
    "MicroTime",
    "MinItems",
    "MinLength",
    "MinProperties",
    "Model",
    "MultipleOf",
    "Name",
    "NotFoundValue",
    "NotSupported",
    "NullIfAbsent",
    "Nullable",
    "ObjectMeta",
    "OmitEmpty",
    "OpenAPI",
    "OwnerReference",
    "Page",
    "PatchMerge",
    "PatchReplace",
    "Pattern",
    "Pipe",
    "PlacedPlugin",
    "Preserve",
    "Proto",
    "Quantity",
    "Required",
    "Resource",
    "ResourceDefinition",
    "RetainKeys",
    "Review",
    "Rule",
    "Scale",
    "Served",
    "Shape",
    "ShapeError",
    "Spoke",
    "StoredCollection",
    "Target",
    "TerminalSize",
    "TooLong",
    "TooMany",
    "Unique",
    "User",
    "VirtualCollection",
    "WatchOptions",
    "dataclass_shape",
    "errors",
    "field",
    "find_condition",
    "format_quantity",
    "is_condition_true",
    "parse_quantity",
    "part",
    "pydantic_shape",
    "remove_condition",
    "replace",
    "same_fields",
    "served_from",
    "set_condition",
    "subresource",
    "wire",
]

# a visible __getattr__ would make type checkers accept any name
if not TYPE_CHECKING:
    _WHERE = {
        "apps.controlplane.control_plane": "ControlPlane",
        "client.informers.informer": "Informer",
        "meta": "errors",
        "meta.context": "Clock Context Target User",
        "meta.errors": "Denied",
        "meta.fielderrors": (
            "Duplicate FieldError Forbidden Invalid NotFoundValue NotSupported Required TooLong TooMany"
        ),
        "meta.options": "ListOptions WatchOptions",
        "meta.quantities": "format_quantity parse_quantity",
        "policy.admission.plugin": "Admission PlacedPlugin Review",
        "policy.authn.authenticator": "Authenticator BadCredentials Credentials Identity",
        "policy.authz.authorizer": "Authorizer Decision",
        "registry.hooks.channels": "Channel Channels Pipe TerminalSize",
        "registry.hooks.collection": "StoredCollection VirtualCollection",
        "registry.hooks.object_hooks": "served_from",
        "registry.virtual.pages": "Page",
        "registry.served": "Served",
        "registry.hooks.subresource": "part subresource",
        "schema.types.declaring": "DeclarationError",
        "schema.definition": "Column DefaultRoles ResourceDefinition Rule Scale",
        "schema.foreign.shape": "Foreign Shape ShapeError",
        "schema.foreign.dataclasses": "dataclass_shape",
        "schema.foreign.pydantic": "pydantic_shape",
        "schema.types.markers": (
            "JSON AlsoRequired AsJSON Atomic Doc Embedded Format Ge Gt IntOrString Le ListMap ListSet Lt MaxItems "
            "MaxLength MaxProperties MicroTime MinItems MinLength MinProperties MultipleOf Name NullIfAbsent Nullable "
            "OmitEmpty OpenAPI PatchMerge PatchReplace "
            "Pattern Proto Preserve Quantity RetainKeys Unique"
        ),
        "schema.types.resources": "Resource Spoke",
        "schema.types.shapes": (
            "Condition Model ObjectMeta OwnerReference field find_condition is_condition_true remove_condition replace "
            "set_condition"
        ),
        "schema.types.views": "same_fields wire",
        "apps.api_server": "APIServer",
    }
    _MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'oarlock' has no attribute {name!r}")
        if name == "errors":
            found = importlib.import_module("oarlock.meta.errors")
        else:
            found = getattr(importlib.import_module(f"oarlock.{module}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted(__all__)
