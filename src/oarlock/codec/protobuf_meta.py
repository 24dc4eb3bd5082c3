"""The protobuf messages of Kubernetes' meta types: metadata, Status, discovery, options.

Tables, no code. Go writes `omitted` fields even when they are empty.
Source: ``generated.proto`` of k8s.io/apimachinery ``meta/v1`` and ``runtime``, k8s.io/api ``apidiscovery/v2``
(1.34); the numbers are part of the API. See also: `protobuf`, which puts messages into envelopes.
"""

from __future__ import annotations

from oarlock.codec.protowire import Message, MessageField

__all__ = [
    "DELETE_OPTIONS",
    "KINDS",
    "LIST_META",
    "OBJECT_META",
    "PARTIAL_OBJECT_METADATA",
    "TYPE_META",
]


def _text(**numbers: int) -> tuple[MessageField, ...]:
    return tuple(MessageField(name, number, omitted=True) for name, number in numbers.items())


def _whole(name: str, number: int, kind: str = "int64") -> MessageField:
    return MessageField(name, number, kind)


def _each(name: str, number: int, kind: str | Message = "string") -> MessageField:
    return MessageField(name, number, kind, "list")


TYPE_META = Message("TypeMeta", _text(apiVersion=1, kind=2))

OWNER_REFERENCE = Message(
    "OwnerReference",
    (
        *_text(kind=1, name=3, uid=4, apiVersion=5),
        MessageField("controller", 6, "bool"),
        MessageField("blockOwnerDeletion", 7, "bool"),
    ),
)
MANAGED_FIELDS = Message(
    "ManagedFieldsEntry",
    (
        *_text(manager=1, operation=2, apiVersion=3),
        MessageField("time", 4, "Time"),
        *_text(fieldsType=6),
        MessageField("fieldsV1", 7, "JSON"),
        *_text(subresource=8),
    ),
)
OBJECT_META = Message(
    "ObjectMeta",
    (
        *_text(name=1, generateName=2, namespace=3, selfLink=4, uid=5, resourceVersion=6),
        MessageField("generation", 7, "int64", omitted=True),
        MessageField("creationTimestamp", 8, "Time"),
        MessageField("deletionTimestamp", 9, "Time"),
        _whole("deletionGracePeriodSeconds", 10),
        MessageField("labels", 11, "string", "map"),
        MessageField("annotations", 12, "string", "map"),
        _each("ownerReferences", 13, OWNER_REFERENCE),
        _each("finalizers", 14),
        _each("managedFields", 17, MANAGED_FIELDS),
    ),
)
LIST_META = Message(
    "ListMeta", (*_text(**{"selfLink": 1, "resourceVersion": 2, "continue": 3}), _whole("remainingItemCount", 4))
)
PARTIAL_OBJECT_METADATA = Message("PartialObjectMetadata", (MessageField("metadata", 1, OBJECT_META),))

_STATUS = Message(
    "Status",
    (
        MessageField("metadata", 1, LIST_META),
        *_text(status=2, message=3, reason=4),
        MessageField(
            "details",
            5,
            Message(
                "StatusDetails",
                (
                    *_text(name=1, group=2, kind=3),
                    _each("causes", 4, Message("StatusCause", _text(reason=1, message=2, field=3))),
                    _whole("retryAfterSeconds", 5, "int32"),
                    *_text(uid=6),
                ),
            ),
        ),
        _whole("code", 6, "int32"),
    ),
)

_VERSION = Message("GroupVersionForDiscovery", _text(groupVersion=1, version=2))
_ADDRESS = Message("ServerAddressByClientCIDR", _text(clientCIDR=1, serverAddress=2))
_VERBS = Message("Verbs", (_each("items", 1),), wrapped=True)
_GROUP = Message(
    "APIGroup",
    (
        MessageField("name", 1),
        _each("versions", 2, _VERSION),
        MessageField("preferredVersion", 3, _VERSION),
        _each("serverAddressByClientCIDRs", 4, _ADDRESS),
    ),
)
_RESOURCE = Message(
    "APIResource",
    (
        MessageField("name", 1),
        MessageField("namespaced", 2, "bool"),
        MessageField("kind", 3),
        MessageField("verbs", 4, _VERBS),
        _each("shortNames", 5),
        MessageField("singularName", 6),
        _each("categories", 7),
        *_text(group=8, version=9, storageVersionHash=10),
    ),
)
_RESOURCES = Message("APIResourceList", (MessageField("groupVersion", 1), _each("resources", 2, _RESOURCE)))

_KIND = Message("GroupVersionKind", (MessageField("group", 1), MessageField("version", 2), MessageField("kind", 3)))
_SUBRESOURCE_DISCOVERY = Message(
    "APISubresourceDiscovery",
    (
        MessageField("subresource", 1),
        MessageField("responseKind", 2, _KIND),
        _each("acceptedTypes", 3, _KIND),
        _each("verbs", 4),
    ),
)
_RESOURCE_DISCOVERY = Message(
    "APIResourceDiscovery",
    (
        MessageField("resource", 1),
        MessageField("responseKind", 2, _KIND),
        MessageField("scope", 3),
        MessageField("singularResource", 4),
        _each("verbs", 5),
        _each("shortNames", 6),
        _each("categories", 7),
        _each("subresources", 8, _SUBRESOURCE_DISCOVERY),
    ),
)
_VERSION_DISCOVERY = Message(
    "APIVersionDiscovery",
    (MessageField("version", 1), _each("resources", 2, _RESOURCE_DISCOVERY), MessageField("freshness", 3)),
)
_GROUP_DISCOVERY = Message(
    "APIGroupDiscovery", (MessageField("metadata", 1, OBJECT_META), _each("versions", 2, _VERSION_DISCOVERY))
)

KINDS = {
    message.name: message
    for message in (
        _STATUS,
        PARTIAL_OBJECT_METADATA,
        Message(
            "PartialObjectMetadataList",
            (MessageField("metadata", 1, LIST_META), _each("items", 2, PARTIAL_OBJECT_METADATA)),
        ),
        _GROUP,
        Message("APIGroupList", (_each("groups", 1, _GROUP),)),
        _RESOURCES,
        Message("APIVersions", (_each("versions", 1), _each("serverAddressByClientCIDRs", 2, _ADDRESS))),
        Message("APIGroupDiscoveryList", (MessageField("metadata", 1, LIST_META), _each("items", 2, _GROUP_DISCOVERY))),
    )
}
"""The kinds that are answered in protobuf whatever resource they are about."""

DELETE_OPTIONS = Message(
    "DeleteOptions",
    (
        _whole("gracePeriodSeconds", 1),
        MessageField(
            "preconditions", 2, Message("Preconditions", (MessageField("uid", 1), MessageField("resourceVersion", 2)))
        ),
        MessageField("orphanDependents", 3, "bool"),
        MessageField("propagationPolicy", 4),
        _each("dryRun", 5),
        MessageField("ignoreStoreReadErrorWithClusterBreakingPotential", 6, "bool"),
    ),
)
