"""`Client`: reads, writes and watches objects of a Kubernetes API, typed by declared classes or as trees.

    await client.create(Database(metadata=ObjectMeta(name="orders", namespace="shop"), spec=…))
    async for database in client.list(Database, namespace="shop"): …
    tree = await client.get("apps/v1/Deployment", "web", namespace="shop")

A kind is a declared class (a `Resource`, `Spoke` or `Foreign`), or ``group/version/Kind`` for trees; a `ResourceRef`
says which resource is meant, where a group may have two of a kind. Errors are those of `oarlock.errors`.
Must not know: how requests travel. See also: `requests`, `informers.watching`, `remote_command`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import fields, replace
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, cast, overload

from oarlock.client.informers.informer import CachedSource, CacheTransport, Informer
from oarlock.client.informers.observers import Observers
from oarlock.client.informers.remote_objects import InitialEvents, watch_list
from oarlock.client.informers.watching import BeginningRefused, WatchEvent, resumed
from oarlock.client.keywords import (
    ClientKeywords,
    ClientSettings,
    DeleteKeywords,
    PagedKeywords,
    PatchType,
    SelectionKeywords,
    WriteKeywords,
    deletion,
    write_pairs,
)
from oarlock.client.kinds import Discovery, ResourceRef, ref_of_class, split_kind
from oarlock.client.objects import WATCH_S, ListQuery, ObjectPage, body_of, items_of, metadata_of, pairs, shown, tree_of
from oarlock.client.remote_command import CHANNELS, CommandResult, RemoteCommand, command_query
from oarlock.client.requests import Requests
from oarlock.client.transport import ClientConnection, ClientResponse, Transport
from oarlock.codec import json
from oarlock.meta.context import User
from oarlock.meta.errors import Conflict, Expired
from oarlock.meta.json_trees import Tree
from oarlock.meta.options_parse import QueryPairs

T = TypeVar("T")
_MEDIA = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY = "application/apply-patch+yaml"
_ATTEMPTS = 10
_SILENCE_S = WATCH_S + 30.0
"""A watch that tells nothing for so long is broken: the server should have ended it before."""


class Client:
    """A client of one server, for one user. `async with` closes its connections.

    Keywords are the fields of `ClientSettings`: `field_manager`, `field_validation`, `timeout_s`, `retries`, `user`,
    `user_agent`, `on_warning`.
    """

    def __init__(self, transport: Transport, **settings: Unpack[ClientKeywords]) -> None:
        self.transport = transport
        self._discovery = Discovery(self._fetch, getattr(transport, "served_now", None))
        self._requests = Requests(transport, ClientSettings(**settings), self._discovery.note)
        self._refs: dict[Any, ResourceRef] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Clients that `using` and `as_user` made share them, so they are closed too."""
        await self.transport.close()

    @property
    def settings(self) -> ClientSettings:
        """The settings of this client."""
        return self._requests.settings

    def using(self, **settings: Unpack[ClientKeywords]) -> Client:
        """A client on the same connections with these settings changed."""
        own = {field.name: getattr(self.settings, field.name) for field in fields(ClientSettings)}
        return Client(self.transport, **cast("ClientKeywords", {**own, **settings}))

    def over(self, wrap: Callable[[Transport], Transport]) -> Client:
        """A client with the same settings, whose transport is the result of `wrap`."""
        own = {field.name: getattr(self.settings, field.name) for field in fields(ClientSettings)}
        return Client(wrap(self.transport), **cast("ClientKeywords", own))

    def as_user(self, user: User) -> Client:
        """A client on the same connections that impersonates `user`. The server refuses requests if it may not."""
        return self.using(user=user)

    # Reading

    @overload
    async def get(
        self, kind: str | ResourceRef, name: str, *, namespace: str = "", resource_version: str = ""
    ) -> Tree: ...
    @overload
    async def get(self, kind: type[T], name: str, *, namespace: str = "", resource_version: str = "") -> T: ...
    @overload
    async def get(
        self, kind: Any, name: str, *, subresource: str, namespace: str = "", resource_version: str = ""
    ) -> Any: ...
    async def get(
        self, kind: Any, name: str, *, subresource: str = "", namespace: str = "", resource_version: str = ""
    ) -> Any:
        """An object, or one of its subresources. Raises NotFound.

        A subresource of the same kind (``status``) is returned as an object of the class, any other (``scale``) as a
        tree.
        """
        ref = await self.ref(kind)
        query = pairs({"resourceVersion": resource_version})
        return shown(await self._requests.tree("GET", ref.object(name, namespace, subresource), query), ref)

    @overload
    def list(self, kind: str | ResourceRef, **selection: Unpack[PagedKeywords]) -> AsyncGenerator[Tree, None]: ...
    @overload
    def list(self, kind: type[T], **selection: Unpack[PagedKeywords]) -> AsyncGenerator[T, None]: ...
    async def list(self, kind: Any, **selection: Unpack[PagedKeywords]) -> AsyncGenerator[Any, None]:
        """The objects of a namespace, or of all namespaces, read page by page. The keywords are those of `pages`."""
        async with aclosing(self.pages(kind, **selection)) as pages:
            async for page in pages:
                for item in page.items:
                    yield item

    @overload
    def pages(
        self, kind: str | ResourceRef, **selection: Unpack[PagedKeywords]
    ) -> AsyncGenerator[ObjectPage[Tree], None]: ...
    @overload
    def pages(self, kind: type[T], **selection: Unpack[PagedKeywords]) -> AsyncGenerator[ObjectPage[T], None]: ...
    async def pages(
        self,
        kind: Any,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        include_uninitialized: bool = False,
        page_size: int = 500,
    ) -> AsyncGenerator[ObjectPage[Any], None]:
        """The pages of a list, one after another. With a `page_size` of 0 there is one page.

        All pages are of one revision. If the server has compacted it meanwhile, the other pages are of the current
        revision.
        """
        ref = await self.ref(kind)
        collection = ref.collection(namespace)
        query = ListQuery(label_selector, field_selector, "", page_size, include_uninitialized)
        token = ""
        while True:
            try:
                page = await self._requests.tree("GET", collection, query.pairs(token))
            except Expired as error:
                if not (token and error.continue_token):
                    raise
                page = await self._requests.tree("GET", collection, query.pairs(error.continue_token))
            metadata = metadata_of(page)
            items = [shown(tree, ref) for tree in items_of(page, ref)]
            yield ObjectPage(items, metadata.get("resourceVersion", ""), metadata.get("remainingItemCount") or 0)
            token = metadata.get("continue", "")
            if not token:
                return

    @overload
    def watch(
        self, kind: str, *, resource_version: str = "", **selection: Unpack[SelectionKeywords]
    ) -> AsyncGenerator[WatchEvent[Tree], None]: ...
    @overload
    def watch(
        self, kind: type[T], *, resource_version: str = "", **selection: Unpack[SelectionKeywords]
    ) -> AsyncGenerator[WatchEvent[T], None]: ...
    async def watch(
        self,
        kind: Any,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        include_uninitialized: bool = False,
        resource_version: str = "",
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        """The changes of a kind, without end: a watch that breaks off is resumed.

        It starts after `resource_version`. Without one, it starts with the existing objects, as ``ADDED``. These are
        held in memory until all have arrived. If the connection breaks before that, the changes made meanwhile are
        yielded after it is restored. Raises Expired if history was compacted while the connection was down: then list
        again, and watch from the resourceVersion of that list.
        """
        ref = await self.ref(kind)
        query = ListQuery(label_selector, field_selector, resource_version, include_uninitialized=include_uninitialized)
        async with aclosing(self.events(ref, query, namespace)) as events:
            async for event, tree in events:
                if event != "BOOKMARK":
                    yield WatchEvent(event, shown(tree, ref), metadata_of(tree).get("resourceVersion", ""))

    async def events(
        self, ref: ResourceRef, query: ListQuery, namespace: str = ""
    ) -> AsyncGenerator[tuple[str, Tree], None]:
        """The type and the tree of each event of a watch, bookmarks included. A watch that breaks off is resumed."""
        collection = ref.collection(namespace)

        async def ask(parameters: QueryPairs) -> ClientResponse:
            return await self.open(collection, parameters, streams=True)

        async def begin(resource_version: str) -> ClientResponse:
            if resource_version in ("", "0"):
                return await watch_list(ask, query.watch_list_pairs(), query.watch_pairs(resource_version))
            return await ask(query.watch_pairs(resource_version))

        begins_at = query.resource_version
        initial = InitialEvents() if begins_at in ("", "0") else None
        while True:
            try:
                async with aclosing(resumed(begin, begins_at, self.pause, initial=initial)) as batches:
                    async for batch in batches:
                        for event in batch:
                            yield event.type, event.object
                    return
            except BeginningRefused:
                page = await self._requests.tree("GET", collection, replace(query, page_size=0).pairs(""))
                begins_at, initial = metadata_of(page).get("resourceVersion", ""), None
                for tree in items_of(page, ref):
                    yield "ADDED", tree

    @overload
    def informer(self, kind: str, **selection: Unpack[SelectionKeywords]) -> Informer[Tree]: ...
    @overload
    def informer(self, kind: type[T], **selection: Unpack[SelectionKeywords]) -> Informer[T]: ...
    def informer(self, kind: Any, **selection: Unpack[SelectionKeywords]) -> Informer[Any]:
        """An `Informer`: the objects of a kind in memory, kept current while its context lasts (`async with`).

        In the server's own process it reads the server's cache, if the user of this client may list the kind.
        """
        return Informer(kind, client=self, **selection)

    async def cached(self, kind: Any) -> CachedSource[Any] | None:
        """The objects of a kind in the cache of the server in this process, until `ended`. None in another process.

        Reading it sends no request. It may lag behind writes of other processes. Don't change what it returns. The
        server doesn't check whether the user of this client may list the kind. Raises StatusError for a kind that isn't
        served.
        """
        if not hasattr(self.transport, "cached_objects"):
            return None
        transport = cast("CacheTransport", self.transport)
        return transport.cached_objects(await self.ref(kind), "", ListQuery(), Observers())

    # Writing

    async def create(self, obj: T, *, kind: Any = None, namespace: str = "", **how: Unpack[WriteKeywords]) -> T:
        """Create an object. Returns the stored object. Raises AlreadyExists, InvalidObject."""
        ref, tree = await self._outgoing(obj, kind)
        namespace = namespace or metadata_of(tree).get("namespace", "")
        if ref.namespaced and not namespace:
            raise ValueError(f"{ref.kind}: set its namespace: namespace=…, or in its metadata")
        created: T = shown(await self._write("POST", ref.collection(namespace), tree, how), ref)
        return created

    async def update(
        self, obj: T, *, kind: Any = None, namespace: str = "", subresource: str = "", **how: Unpack[WriteKeywords]
    ) -> T:
        """Replace an object, if its resourceVersion is still the current one. Raises Conflict, NotFound, InvalidObject.

        Fields that the class doesn't declare are removed; `change` keeps them. ``subresource="status"`` replaces the
        status.
        """
        ref, tree = await self._outgoing(obj, kind)
        updated: T = shown(await self._write("PUT", _where(ref, tree, namespace, subresource), tree, how), ref)
        return updated

    @overload
    async def change(
        self,
        kind: str,
        name: str,
        change: Callable[[Tree], object],
        *,
        namespace: str = "",
        subresource: str = "",
        **how: Unpack[WriteKeywords],
    ) -> Tree: ...
    @overload
    async def change(
        self,
        kind: type[T],
        name: str,
        change: Callable[[T], object],
        *,
        namespace: str = "",
        subresource: str = "",
        **how: Unpack[WriteKeywords],
    ) -> T: ...
    async def change(
        self,
        kind: Any,
        name: str,
        change: Callable[[Any], object],
        *,
        namespace: str = "",
        subresource: str = "",
        **how: Unpack[WriteKeywords],
    ) -> Any:
        """Read an object, call `change` with it, and write it. A conflict is retried with the newest object.

        `change` changes the object in place, and is called once for each attempt. Everything else is kept, also fields
        that the class doesn't declare. Nothing is written if nothing changed. Returns the object. Raises NotFound,
        InvalidObject, and Conflict after ten attempts.
        """
        ref = await self.ref(kind)
        where = ref.object(name, namespace, subresource)
        for attempt in range(_ATTEMPTS):
            tree = await self._requests.tree("GET", ref.object(name, namespace))
            new, changed = _changed(tree, ref, change)
            if new == tree:
                return changed
            try:
                written = shown(await self._write("PUT", where, new, how), ref)
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return written
        raise AssertionError("the last attempt returns or raises")

    async def patch(
        self,
        kind: Any,
        name: str,
        patch: Any,
        *,
        type: PatchType = "merge",
        namespace: str = "",
        subresource: str = "",
        **how: Unpack[WriteKeywords],
    ) -> Any:
        """Patch an object. Returns the stored object. Raises NotFound, Conflict, InvalidObject."""
        ref = await self.ref(kind)
        where = ref.object(name, namespace, subresource)
        return shown(await self._write("PATCH", where, patch, how, _MEDIA[type]), ref)

    async def apply(
        self,
        obj: T,
        *,
        kind: Any = None,
        namespace: str = "",
        subresource: str = "",
        force: bool = False,
        **how: Unpack[WriteKeywords],
    ) -> T:
        """Server-side apply: set the fields of `obj` and own them. Creates the object if it doesn't exist.

        A typed object owns every field that it writes, defaults of its class included. Pass a tree with `kind` to own
        fewer fields. Raises FieldConflict if another manager owns a field and `force` isn't set. Source: KEP-555.
        """
        ref, tree = await self._outgoing(obj, kind)
        metadata = {k: v for k, v in metadata_of(tree).items() if k not in ("managedFields", "resourceVersion", "uid")}
        tree["metadata"] = metadata
        where = _where(ref, tree, namespace, subresource)
        query = (*write_pairs(self.settings, **how), *pairs({"force": "true" if force else ""}))
        headers = {"content-type": _APPLY}
        applied: T = shown(await self._requests.tree("PATCH", where, query, tree, headers), ref)
        return applied

    async def delete(self, kind: Any, name: str, *, namespace: str = "", **how: Unpack[DeleteKeywords]) -> None:
        """Delete an object. An object with finalizers is only marked as deleted. Raises NotFound, Conflict.

        `propagation` is the deletion policy for dependents: ``Background``, ``Foreground`` or ``Orphan``. `uid` and
        `resource_version` are preconditions: Conflict if the object has another one. `grace_period_s` is in seconds.
        """
        ref = await self.ref(kind)
        await self._requests.ask("DELETE", ref.object(name, namespace), (), deletion(**how))

    async def delete_collection(
        self,
        kind: Any,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        **how: Unpack[DeleteKeywords],
    ) -> None:
        """Delete all selected objects. The keywords are those of `delete`."""
        ref = await self.ref(kind)
        query = ListQuery(label_selector, field_selector, page_size=0)
        await self._requests.ask("DELETE", ref.collection(namespace), query.pairs(""), deletion(**how))

    async def scale(
        self, kind: Any, name: str, replicas: int, *, namespace: str = "", **how: Unpack[WriteKeywords]
    ) -> Tree:
        """Set the number of replicas through the scale subresource. Returns the Scale."""
        ref = await self.ref(kind)
        patch = {"spec": {"replicas": replicas}}
        return await self._write("PATCH", ref.object(name, namespace, "scale"), patch, how, _MEDIA["merge"])

    async def post(
        self,
        kind: Any,
        name: str,
        subresource: str,
        body: Any = None,
        *,
        namespace: str = "",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """POST to a subresource, such as ``eviction`` or an action of your own. Returns the tree of the answer.

        `body` is an object of a declared class or a tree; None sends no body. The result is None for an empty answer.
        """
        ref = await self.ref(kind)
        where = ref.object(name, namespace, subresource)
        return await self._requests.ask("POST", where, pairs(query or {}), body_of(body))

    # Streams

    async def log(
        self, kind: Any, name: str, *, namespace: str = "", follow: bool = False, **query: str
    ) -> AsyncGenerator[bytes, None]:
        """The ``log`` subresource, piece by piece. `query` has its other parameters: ``container="web"``."""
        ref = await self.ref(kind)
        parameters = [*query.items(), *([("follow", "true")] if follow else [])]
        answer = await self._requests.open(ref.object(name, namespace, "log"), parameters, streams=True)
        try:
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            await answer.close()

    @asynccontextmanager
    async def exec(
        self,
        kind: Any,
        name: str,
        command: Sequence[str],
        *,
        namespace: str = "",
        tty: bool = False,
        subresource: str = "exec",
        query: Mapping[str, str] | None = None,
    ) -> AsyncIterator[RemoteCommand]:
        """Start a command. The connection is closed at the end of the context.

        `query` has other parameters, such as ``container``. Raises StatusError when the server refuses it. Use `run`
        for a command whose output is needed as a whole.
        """
        parameters = (*command_query(command, tty=tty), *pairs(query or {}))
        connection = await self.connect(kind, name, subresource, parameters, namespace=namespace)
        try:
            yield RemoteCommand(connection)
        finally:
            await connection.close()

    async def run(
        self,
        kind: Any,
        name: str,
        command: Sequence[str],
        *,
        namespace: str = "",
        stdin: bytes = b"",
        query: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a command and wait for its end. Returns exit code, stdout and stderr, of at most 16 MiB together."""
        async with self.exec(kind, name, command, namespace=namespace, query=query) as remote:
            return await remote.result(stdin)

    async def connect(
        self, kind: Any, name: str, subresource: str, query: QueryPairs = (), *, namespace: str = ""
    ) -> ClientConnection:
        """Connect over WebSocket to ``exec``, ``attach``, ``portforward`` or a subresource that connects.

        The first byte of each message is the channel: 0 stdin, 1 stdout, 2 stderr, 3 the result, 4 resize, 255 close.
        """
        ref = await self.ref(kind)
        return await self._requests.connect(ref.object(name, namespace, subresource), tuple(query), CHANNELS)

    # Requests

    async def ref(self, kind: Any) -> ResourceRef:
        """The resource that serves a kind now. Raises NotFound if the server doesn't serve the kind.

        A `ResourceRef` is returned unchanged.
        """
        if isinstance(kind, ResourceRef):
            return kind
        if isinstance(kind, str):
            return await self._discovery.find(*split_kind(kind))
        known = self._refs.get(kind)
        if known is None:
            known = self._refs[kind] = ref_of_class(kind)
        return known

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: QueryPairs = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send any request. Returns the JSON of the answer, None if it is empty. Raises StatusError."""
        return await self._requests.ask(method, path, query, body_of(body), headers)

    async def open(self, path: str, query: QueryPairs, *, streams: bool = False, accept: str = "") -> ClientResponse:
        """Send a GET, or a watch with `streams`, and leave the answer to the caller. Raises StatusError.

        `accept` is the media type to ask for, by default JSON.
        """
        silence_s = _SILENCE_S if streams else None
        return await self._requests.open(path, query, streams=streams, silence_s=silence_s, accept=accept)

    async def pause(self, failures: int) -> None:
        """Wait before a watch is opened again: longer after each failure in a row, with jitter."""
        await self._requests.pause(failures)

    async def _write(self, method: str, path: str, body: Any, how: WriteKeywords, media: str = "") -> Tree:
        headers = {"content-type": media} if media else None
        return await self._requests.tree(method, path, write_pairs(self.settings, **how), body, headers)

    async def _fetch(self, path: str) -> Tree:
        return await self._requests.tree("GET", path)

    async def _outgoing(self, obj: Any, kind: Any) -> tuple[ResourceRef, Tree]:
        """The path and tree of an object that is to be written."""
        if kind is None:
            kind = f"{obj.get('apiVersion', '')}/{obj.get('kind', '')}" if isinstance(obj, dict) else type(obj)
        ref = await self.ref(kind)
        return ref, tree_of(obj, ref)


def _where(ref: ResourceRef, tree: Tree, namespace: str, subresource: str) -> str:
    metadata = metadata_of(tree)
    return ref.object(metadata.get("name", ""), namespace or metadata.get("namespace", ""), subresource)


def _changed(tree: Tree, ref: ResourceRef, change: Callable[[Any], object]) -> tuple[Tree, Any]:
    """The tree after `change`, and the object it was given. `tree` stays as it was."""
    if ref.projection is None:
        copy: Tree = json.decode(json.encode(tree))
        change(copy)
        return copy, copy
    opened = ref.projection.open(tree)
    change(opened.object)
    return opened.result(), opened.object
