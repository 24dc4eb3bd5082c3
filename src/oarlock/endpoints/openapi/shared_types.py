"""OpenAPI schemas of the types every server has: ObjectMeta, ListMeta, Status, DeleteOptions…

References are written ``{"$ref": "ObjectMeta"}`` and resolved by `documents_v3` and `documents_v2`.
Must not know: which groups are served. Source: k8s.io/apimachinery ``meta/v1``; names and types are those of its JSON.
See also: `kinds`.
"""

from __future__ import annotations

from typing import Any

from oarlock.schema.definition import Schema

__all__ = ["API_VERSION", "CONVENTIONS", "INT_OR_STRING", "KIND", "QUANTITY", "SCALE", "SHARED_TYPES", "VERSION_INFO"]


# Clients show these texts as those of every kind: they are Kubernetes' own.
CONVENTIONS = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
API_VERSION: Schema = {
    "type": "string",
    "description": "APIVersion defines the versioned schema of this representation of an object. Servers should "
    "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
    f"{CONVENTIONS}#resources",
}
KIND: Schema = {
    "type": "string",
    "description": "Kind is a string value representing the REST resource this object represents. Servers may infer "
    "this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. "
    f"{CONVENTIONS}#types-kinds",
}
VERSION_INFO = "io.k8s.apimachinery.pkg.version.Info"
RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
SCALE = "io.k8s.api.autoscaling.v1.Scale"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

_ATOMIC: Schema = {"x-kubernetes-list-type": "atomic"}


def _text(description: str = "", **more: Any) -> Schema:
    return {"type": "string", **({"description": description} if description else {}), **more}


def _count(description: str, width: str = "int64") -> Schema:
    return {"type": "integer", "format": width, "description": description}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _ref(name: str, description: str = "") -> Schema:
    return {"allOf": [{"$ref": name}], **({"description": description} if description else {})}


def _list(items: Schema, description: str, **more: Any) -> Schema:
    return {"type": "array", "items": items, "description": description, **more}


def _map(description: str) -> Schema:
    return {"type": "object", "additionalProperties": {"type": "string"}, "description": description}


def _object(description: str, properties: Schema, required: tuple[str, ...] = (), **more: Any) -> Schema:
    tree: Schema = {"type": "object", "description": description, "properties": properties}
    if required:
        tree["required"] = list(required)
    return {**tree, **more}


def _top(description: str, properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    return _object(description, {"apiVersion": API_VERSION, "kind": KIND, **properties}, required)


_OBJECT_META = _object(
    "What every stored object carries besides its own fields.",
    {
        "annotations": _map("Free-form data of tools, not used for selection."),
        "creationTimestamp": _ref("Time", "When the object was created. Set by the server."),
        "deletionGracePeriodSeconds": _count("Seconds the object may take to end. Set when deletion was asked for."),
        "deletionTimestamp": _ref("Time", "When the object is to go. Set by the server when deletion was asked for."),
        "finalizers": _list(
            _text(),
            "While this isn't empty, a deleted object stays. Whoever added an entry removes it.",
            **{"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"},
        ),
        "generateName": _text("A prefix from which the server makes a unique name when none is given."),
        "generation": _count("Counts the changes of the wanted state. Set by the server."),
        "labels": _map("Keys and values by which objects are selected."),
        "managedFields": _list(
            {"$ref": "ManagedFieldsEntry"},
            "Which manager set which fields. Kept by the server.",
            **_ATOMIC,
        ),
        "name": _text("Unique among objects of its kind in the namespace. Cannot be changed."),
        "namespace": _text("The space in which the name is unique; empty for cluster-scoped kinds. Cannot be changed."),
        "ownerReferences": _list(
            {"$ref": "OwnerReference"},
            "The objects this one depends on. When all are gone, it is collected.",
            **{
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "uid",
                "x-kubernetes-patch-strategy": "merge",
            },
        ),
        "resourceVersion": _text("Names this state of the object; compare for equality only. Set by the server."),
        "selfLink": _text("No longer set."),
        "uid": _text("Unique in time and space. Set by the server."),
    },
)

_OWNER_REFERENCE = _object(
    "Names an owner of the object, in the same namespace or cluster-scoped.",
    {
        "apiVersion": _text("Group and version of the owner."),
        "blockOwnerDeletion": _flag("Foreground deletion of the owner waits for this object."),
        "controller": _flag("The owner is the one that manages this object."),
        "kind": _text("Kind of the owner."),
        "name": _text("Name of the owner."),
        "uid": _text("UID of the owner."),
    },
    ("apiVersion", "kind", "name", "uid"),
    **{"x-kubernetes-map-type": "atomic"},
)

_MANAGED_FIELDS_ENTRY = _object(
    "The fields one manager set with one kind of operation.",
    {
        "apiVersion": _text("The version the field names belong to."),
        "fieldsType": _text("The format of the field set; FieldsV1."),
        "fieldsV1": _ref("FieldsV1", "The field set."),
        "manager": _text("Who manages the fields."),
        "operation": _text("Apply or Update."),
        "subresource": _text("The subresource the fields were set through."),
        "time": _ref("Time", "When the set last changed."),
    },
)

_LIST_META = _object(
    "What every list carries besides its items.",
    {
        "continue": _text("Send it back to get the next page; empty on the last one."),
        "remainingItemCount": _count("How many items follow, when the server knows."),
        "resourceVersion": _text("The state the list was read at; a watch may begin here."),
        "selfLink": _text("No longer set."),
    },
)

_DELETE_OPTIONS = _top(
    "How to delete.",
    {
        "dryRun": _list(_text(), "All: do everything but the deletion.", **_ATOMIC),
        "gracePeriodSeconds": _count("Seconds the object may take to end; 0 means at once."),
        "ignoreStoreReadErrorWithClusterBreakingPotential": _flag(
            "Remove an object that can't be read from the store, without its finalizers and preconditions."
        ),
        "orphanDependents": _flag("Older form of propagationPolicy."),
        "preconditions": _ref("Preconditions", "What must hold for the deletion to happen."),
        "propagationPolicy": _text("What becomes of dependents: Orphan, Background or Foreground."),
    },
)

_PRECONDITIONS = _object(
    "What must hold before an operation is carried out.",
    {"resourceVersion": _text("The resource version it must have."), "uid": _text("The UID it must have.")},
)

_STATUS = _top(
    "The answer of a request that hands back no object.",
    {
        "code": _count("The HTTP code.", "int32"),
        "details": _ref("StatusDetails", "More about the reason."),
        "message": _text("What happened, for people."),
        "metadata": _ref("ListMeta"),
        "reason": _text("What happened, in one word, for programs."),
        "status": _text("Success or Failure."),
    },
)

_STATUS_DETAILS = _object(
    "More about why a request was answered as it was.",
    {
        "causes": _list({"$ref": "StatusCause"}, "Every single cause of a failure.", **_ATOMIC),
        "group": _text("Group of the object concerned."),
        "kind": _text("Kind or resource of the object concerned."),
        "name": _text("Name of the object concerned."),
        "retryAfterSeconds": _count("When to try again.", "int32"),
        "uid": _text("UID of the object concerned."),
    },
)

_STATUS_CAUSE = _object(
    "One cause of a failure.",
    {
        "field": _text("The path of the field that caused it, such as spec.items[0].name."),
        "message": _text("The cause, for people."),
        "reason": _text("The cause, for programs."),
    },
)

_API_RESOURCE = _object(
    "A resource in discovery.",
    {
        "categories": _list(_text(), "Groups of resources it belongs to.", **_ATOMIC),
        "group": _text("Group of its kind, when it isn't the list's."),
        "kind": _text("Kind of its objects."),
        "name": _text("Plural name, with /subresource for a subresource."),
        "namespaced": _flag("Whether its objects live in namespaces."),
        "shortNames": _list(_text(), "Short names.", **_ATOMIC),
        "singularName": _text("Singular name."),
        "storageVersionHash": _text("Names the version it is stored in."),
        "verbs": _list(_text(), "What may be done with it."),
        "version": _text("Version of its kind, when it isn't the list's."),
    },
    ("name", "singularName", "namespaced", "kind", "verbs"),
)

_API_GROUP = _top(
    "A group in discovery.",
    {
        "name": _text("Name of the group."),
        "preferredVersion": _ref("GroupVersionForDiscovery", "The version to use without a reason for another."),
        "serverAddressByClientCIDRs": _list(
            {"$ref": "ServerAddressByClientCIDR"}, "Where clients reach the server.", **_ATOMIC
        ),
        "versions": _list({"$ref": "GroupVersionForDiscovery"}, "Its versions, preferred first.", **_ATOMIC),
    },
    ("name", "versions"),
)

_EITHER: Schema = {"oneOf": [{"type": "integer"}, {"type": "string"}]}

SHARED_TYPES: dict[str, Schema] = {
    INT_OR_STRING: {"description": "A number or a name.", "format": "int-or-string", **_EITHER},
    QUANTITY: {"description": "An amount, such as 100m, 1.5Gi or 2.", **_EITHER},
    "APIGroup": _API_GROUP,
    "APIGroupList": _top(
        "Every group of the server.", {"groups": _list({"$ref": "APIGroup"}, "The groups.", **_ATOMIC)}, ("groups",)
    ),
    "APIResource": _API_RESOURCE,
    "APIResourceList": _top(
        "Every resource of a group and version.",
        {
            "groupVersion": _text("The group and version."),
            "resources": _list({"$ref": "APIResource"}, "The resources and subresources.", **_ATOMIC),
        },
        ("groupVersion", "resources"),
    ),
    "APIVersions": _top(
        "The versions of the core group.",
        {
            "serverAddressByClientCIDRs": _list(
                {"$ref": "ServerAddressByClientCIDR"}, "Where clients reach the server.", **_ATOMIC
            ),
            "versions": _list(_text(), "The versions.", **_ATOMIC),
        },
        ("versions", "serverAddressByClientCIDRs"),
    ),
    "DeleteOptions": _DELETE_OPTIONS,
    "FieldsV1": {"type": "object", "description": "A set of fields as a tree of names."},
    "GroupVersionForDiscovery": _object(
        "A version of a group.",
        {"groupVersion": _text("Group and version."), "version": _text("The version alone.")},
        ("groupVersion", "version"),
    ),
    "ListMeta": _LIST_META,
    "ManagedFieldsEntry": _MANAGED_FIELDS_ENTRY,
    "ObjectMeta": _OBJECT_META,
    "OwnerReference": _OWNER_REFERENCE,
    "Patch": {"type": "object", "description": "The body of a PATCH; its Content-Type says which kind."},
    "Preconditions": _PRECONDITIONS,
    "ServerAddressByClientCIDR": _object(
        "Where clients from some addresses reach the server.",
        {"clientCIDR": _text("The clients' addresses."), "serverAddress": _text("host:port of the server.")},
        ("clientCIDR", "serverAddress"),
    ),
    "Status": _STATUS,
    "StatusCause": _STATUS_CAUSE,
    "StatusDetails": _STATUS_DETAILS,
    "Time": {"type": "string", "format": "date-time", "description": "A point in time, RFC 3339."},
    "WatchEvent": _object(
        "One event of a watch.",
        {
            "object": _ref(RAW, "The object, or a Status."),
            "type": _text("ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."),
        },
        ("type", "object"),
    ),
    RAW: {"type": "object", "description": "Any object."},
    SCALE: _top(
        "How many replicas there are and should be.",
        {
            "metadata": _ref("ObjectMeta"),
            "spec": _object("What is wanted.", {"replicas": _count("How many replicas.", "int32")}),
            "status": _object(
                "What there is.",
                {
                    "replicas": _count("How many replicas.", "int32"),
                    "selector": _text("A label selector that finds the replicas."),
                },
                ("replicas",),
            ),
        },
    ),
    VERSION_INFO: _object(
        "The version of a server.",
        {
            name: _text()
            for name in (
                *(
                    "buildDate",
                    "compiler",
                    "emulationMajor",
                    "emulationMinor",
                    "gitCommit",
                    "gitTreeState",
                    "gitVersion",
                ),
                *("goVersion", "major", "minCompatibilityMajor", "minCompatibilityMinor", "minor", "platform"),
            )
        },
        ("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"),
    ),
}
"""By short name, or by full name if not of ``meta/v1``."""
