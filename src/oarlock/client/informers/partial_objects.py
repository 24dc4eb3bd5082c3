"""`PartialObject`: what every object has, of whatever kind: name, uid, owners, finalizers. `MetadataInformer` has them.

    objects = MetadataInformer("apps/v1/Deployment", client)

For code that looks at objects of many kinds and not into them. In the process of a server it reads the stored bytes and
keeps nothing; over a network it asks for ``PartialObjectMetadata`` and keeps that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from oarlock.client.informers.informer import Informer, ObjectSource
from oarlock.client.informers.observers import Observers
from oarlock.client.informers.remote_objects import RemoteObjects
from oarlock.client.informers.watching import WatchingClient
from oarlock.client.kinds import ResourceRef
from oarlock.client.objects import ListQuery
from oarlock.client.transport import ClientResponse, Transport
from oarlock.meta.options_parse import QueryPairs

T = TypeVar("T")
_LISTED = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
_WATCHED = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"


class OwnerLink(msgspec.Struct, frozen=True, rename="camel"):
    """An owner reference of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    def tree(self) -> dict[str, Any]:
        """The reference as it is written."""
        tree: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in tree.items() if value is not None}


class PartialMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata that generic controllers need, such as owners and finalizers."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerLink, ...] | None = None


class PartialObject(msgspec.Struct, frozen=True):
    """An object of which only the metadata was read."""

    metadata: PartialMetadata = PartialMetadata()


_decode = msgspec.json.Decoder(PartialObject).decode


def partial_object(data: bytes) -> PartialObject | None:
    """The metadata of an object in JSON; None for what is none."""
    try:
        return _decode(data)
    except msgspec.MsgspecError:
        return None


class ByteInformer(Informer[T]):
    """The objects of a kind (``group/version/Kind``, or their path), decoded from JSON by `read`.

    `run` keeps them current until cancelled. In the server's own process, an object is read from the cache, in the
    stored version, each time it is used; nothing is kept. `accept` is the media type to ask for over a network, in
    lists and watches.
    """

    def __init__(
        self,
        kind: str | ResourceRef,
        client: WatchingClient,
        read: Callable[[bytes], T | None],
        accept: tuple[str, str] = ("", ""),
    ) -> None:
        # Kinds are classes for those who read objects; here it is a name, or where they are.
        of: Any = kind
        super().__init__(of, client=_AcceptingClient(client, accept))
        self._read_bytes = read

    def names(self) -> list[str]:
        """The names of the objects, of all namespaces."""
        return [] if self._source is None else [name for (_, name), _ in self._source.objects()]

    def _remote_objects(self, ref: ResourceRef) -> RemoteObjects[T]:
        assert self._client is not None
        return _RemoteBytes(self._client, ref, self.observers, self._read_bytes)

    async def _cached(self, ref: ResourceRef) -> ObjectSource[T] | None:
        assert self._client is not None
        transport: Any = self._client.transport
        if not hasattr(transport, "cached_bytes"):
            return None
        found: ObjectSource[T] | None = transport.cached_bytes(ref, self.observers, self._read_bytes)
        return found


class MetadataInformer(ByteInformer[PartialObject]):
    """The metadata of the objects of a kind."""

    def __init__(self, kind: str | ResourceRef, client: WatchingClient) -> None:
        super().__init__(kind, client, partial_object, (_LISTED, _WATCHED))


class _RemoteBytes(RemoteObjects[T]):
    def __init__(
        self, client: WatchingClient, ref: ResourceRef, observers: Observers[T], read: Callable[[bytes], T | None]
    ) -> None:
        super().__init__(client, ref, "", ListQuery(), observers)
        self._read = read

    def decoded(self, data: bytes) -> T | None:
        return self._read(data)


class _AcceptingClient:
    """A `WatchingClient` that asks for objects in one form."""

    def __init__(self, client: WatchingClient, accept: tuple[str, str]) -> None:
        self._client = client
        self._accept = accept

    @property
    def transport(self) -> Transport:
        return self._client.transport

    async def ref(self, kind: Any) -> ResourceRef:
        return kind if isinstance(kind, ResourceRef) else await self._client.ref(kind)

    async def open(self, path: str, query: QueryPairs, *, streams: bool = False, accept: str = "") -> ClientResponse:
        return await self._client.open(path, query, streams=streams, accept=accept or self._accept[streams])

    async def pause(self, failures: int) -> None:
        await self._client.pause(failures)
