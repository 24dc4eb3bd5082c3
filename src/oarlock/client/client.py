"""`Client`: reads, writes and watches objects of a Kubernetes API, typed by declared classes or as trees.

    await client.create(Database(metadata=ObjectMeta(name="orders", namespace="shop"), spec=…))
    async for database in client.list(Database, namespace="shop"): …
    tree = await client.get("apps/v1/Deployment", "web", namespace="shop")

A kind is a declared class (a `Resource`, `Spoke` or `Foreign`), or ``group/version/Kind`` for trees. Errors are those
of `oarlock.errors`. Must not know: how requests travel. See also: `transport`, `watching`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast, overload
from urllib.parse import quote

from oarlock.client.error_statuses import error_of
from oarlock.client.kinds import Discovery, KindPath, path_of_class, split_kind
from oarlock.client.objects import Tree, encoded, metadata_of, shown, tree_of
from oarlock.client.queries import ListQuery, Pairs, pairs
from oarlock.client.retries import RetryPolicy, send
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, Transport
from oarlock.client.watching import WatchEvent, resumed
from oarlock.codec import json
from oarlock.meta.context import User
from oarlock.meta.errors import Conflict, Expired

__all__ = ["Client", "PatchType"]

T = TypeVar("T")

PatchType = Literal["merge", "json", "strategic"]

_MEDIA = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY = "application/apply-patch+yaml"
_ATTEMPTS = 10
_CHANNELS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class Client:
    """A client of one server, for one user. `async with` closes its connections.

    `field_manager` is what the server calls it in ``managedFields``. `timeout_s` is for a request; watches and logs
    have none. `user` is impersonated (``kubectl --as``).
    """

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "oarlock",
        timeout_s: float = 60.0,
        retries: RetryPolicy | None = None,
        user: User | None = None,
    ) -> None:
        self._transport = transport
        self._field_manager = field_manager
        self._timeout_s = timeout_s
        self._retries = retries or RetryPolicy()
        self._impersonation = () if user is None else _impersonation(user)
        self._discovery = Discovery(self._fetch)
        self._paths: dict[Any, KindPath] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, also those of the clients made by `as_user`."""
        await self._transport.close()

    def as_user(self, user: User) -> Client:
        """A client on the same connections that acts as `user`, if this one may impersonate."""
        return Client(
            self._transport,
            field_manager=self._field_manager,
            timeout_s=self._timeout_s,
            retries=self._retries,
            user=user,
        )

    # Reading

    @overload
    async def get(
        self, kind: str, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = ""
    ) -> Tree: ...
    @overload
    async def get(
        self, kind: type[T], name: str, *, namespace: str = "", subresource: str = "", resource_version: str = ""
    ) -> T: ...
    async def get(
        self, kind: Any, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = ""
    ) -> Any:
        """One object. Raises NotFound."""
        path = await self.path(kind)
        query = pairs({"resourceVersion": resource_version})
        tree = await self._ask("GET", path.object(name, namespace, subresource), query)
        return tree if subresource else shown(tree, path)

    @overload
    def list(
        self,
        kind: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
    ) -> AsyncGenerator[Tree, None]: ...
    @overload
    def list(
        self,
        kind: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
    ) -> AsyncGenerator[T, None]: ...
    async def list(
        self,
        kind: Any,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
    ) -> AsyncGenerator[Any, None]:
        """The objects of a namespace, or of all, page by page; `page_size` 0 asks for all in one answer.

        Pages are of one revision. When that is gone, because reading took minutes, the rest is of the current one.
        """
        path = await self.path(kind)
        query = ListQuery(label_selector, field_selector, page_size=page_size)
        async with aclosing(self.pages(path, query, namespace)) as listed:
            async for page in listed:
                for tree in _items(page, path):
                    yield shown(tree, path)

    async def pages(self, path: KindPath, query: ListQuery, namespace: str = "") -> AsyncGenerator[Tree, None]:
        """The answers to a list, one after another, as trees."""
        token = ""
        while True:
            try:
                page = await self._ask("GET", path.collection(namespace), query.pairs(token))
            except Expired as error:
                if not (token and error.continue_token):
                    raise
                page = await self._ask("GET", path.collection(namespace), query.pairs(error.continue_token))
            yield page
            token = metadata_of(page).get("continue", "")
            if not token:
                return

    @overload
    def watch(
        self,
        kind: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
    ) -> AsyncGenerator[WatchEvent[Tree], None]: ...
    @overload
    def watch(
        self,
        kind: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
    ) -> AsyncGenerator[WatchEvent[T], None]: ...
    async def watch(
        self,
        kind: Any,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        """Changes, without an end: a watch that breaks goes on where it was.

        Begins after `resource_version`; without one, with what exists, as ``ADDED``. Raises Expired when history was
        compacted while the connection was down: list again, and watch from there.
        """
        path = await self.path(kind)
        query = ListQuery(label_selector, field_selector, resource_version)
        async with aclosing(self.events(path, query, namespace)) as events:
            async for event, tree in events:
                if event != "BOOKMARK":
                    yield WatchEvent(event, shown(tree, path), metadata_of(tree).get("resourceVersion", ""))

    async def events(
        self, path: KindPath, query: ListQuery, namespace: str = ""
    ) -> AsyncGenerator[tuple[str, Tree], None]:
        """The type and tree of each event of a watch that resumes by itself, bookmarks included."""
        collection = path.collection(namespace)

        async def begin(resource_version: str) -> ClientResponse:
            return await self.open(collection, query.watch_pairs(resource_version), streams=True)

        async with aclosing(resumed(begin, query.resource_version, self.pause)) as events:
            async for event in events:
                yield event

    # Writing

    async def create(self, obj: T, *, kind: Any = None, namespace: str = "", dry_run: bool = False) -> T:
        """Create an object, and return it as it is then. Raises AlreadyExists, InvalidObject."""
        path, tree = await self._outgoing(obj, kind)
        namespace = namespace or metadata_of(tree).get("namespace", "")
        if path.namespaced and not namespace:
            raise ValueError(f"{path.kind}: say which namespace it is in: namespace=…, or in its metadata")
        query = self._write_query(dry_run)
        created: T = shown(await self._ask("POST", path.collection(namespace), query, tree), path)
        return created

    async def update(
        self,
        obj: T,
        *,
        kind: Any = None,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Replace an object, if nobody changed it since its resourceVersion. Raises Conflict, NotFound, InvalidObject.

        Fields that its class doesn't have are removed: `change` keeps them. ``subresource="status"`` writes the status.
        """
        path, tree = await self._outgoing(obj, kind)
        where = self._where(path, tree, namespace, subresource)
        updated: T = shown(await self._ask("PUT", where, self._write_query(dry_run), tree), path)
        return updated

    async def change(
        self,
        kind: type[T],
        name: str,
        change: Callable[[T], object],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        """Read an object, let `change` change it, write it; again while others are faster.

        `change` is called once for each attempt, with the newest object. What it doesn't touch stays, also fields that
        the class doesn't have. Nothing is written when it changes nothing. Raises Conflict after ten lost races.
        """
        path = await self.path(kind)
        where = path.object(name, namespace, subresource)
        for attempt in range(_ATTEMPTS):
            tree = await self._ask("GET", path.object(name, namespace))
            new, changed = _changed(tree, path, change)
            if new == tree:
                return cast("T", changed)
            try:
                written: T = shown(await self._ask("PUT", where, self._write_query(), new), path)
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
    ) -> Any:
        """Patch an object, and return it. Raises NotFound, Conflict, InvalidObject."""
        path = await self.path(kind)
        where = path.object(name, namespace, subresource)
        headers = {"content-type": _MEDIA[type]}
        return shown(await self._ask("PATCH", where, self._write_query(), patch, headers), path)

    async def apply(
        self,
        obj: T,
        *,
        kind: Any = None,
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> T:
        """Server-side apply: own the fields of `obj` and set them; create it if need be.

        A typed object owns every field that it writes, its class's defaults too; give a tree with `kind` to own fewer.
        Raises FieldConflict for fields that others own, unless `force`. Source: KEP-555.
        """
        path, tree = await self._outgoing(obj, kind)
        metadata = {k: v for k, v in metadata_of(tree).items() if k not in ("managedFields", "resourceVersion", "uid")}
        tree["metadata"] = metadata
        where = self._where(path, tree, namespace, subresource)
        manager = field_manager or self._field_manager
        query = pairs({"fieldManager": manager, "force": "true" if force else ""})
        applied: T = shown(await self._ask("PATCH", where, query, tree, {"content-type": _APPLY}), path)
        return applied

    async def delete(
        self,
        kind: Any,
        name: str,
        *,
        namespace: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Delete an object; with finalizers it is only marked. Raises NotFound, Conflict.

        `options` are DeleteOptions: ``{"propagationPolicy": "Foreground", "preconditions": {"uid": …}}``.
        """
        path = await self.path(kind)
        await self._ask("DELETE", path.object(name, namespace), (), options)

    async def delete_collection(
        self,
        kind: Any,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        propagation: str = "",
    ) -> None:
        """Delete every object that is selected. `propagation`: ``Background``, ``Foreground`` or ``Orphan``."""
        path = await self.path(kind)
        body = {"propagationPolicy": propagation} if propagation else None
        query = ListQuery(label_selector, field_selector, page_size=0)
        await self._ask("DELETE", path.collection(namespace), query.pairs(""), body)

    async def scale(self, kind: Any, name: str, replicas: int, *, namespace: str = "") -> Tree:
        """Set the number of replicas by the scale subresource; returns the Scale."""
        path = await self.path(kind)
        where = path.object(name, namespace, "scale")
        headers = {"content-type": _MEDIA["merge"]}
        scale: Tree = await self._ask("PATCH", where, self._write_query(), {"spec": {"replicas": replicas}}, headers)
        return scale

    async def post(self, kind: Any, name: str, subresource: str, body: Any = None, *, namespace: str = "") -> Any:
        """POST to a subresource, such as ``token`` or one that a server declares; returns the tree it answers."""
        path = await self.path(kind)
        return await self._ask("POST", path.object(name, namespace, subresource), (), body)

    # Streams

    async def log(
        self, kind: Any, name: str, *, namespace: str = "", follow: bool = False, **query: str
    ) -> AsyncGenerator[bytes, None]:
        """The ``log`` subresource as it arrives. `query` are its other parameters: ``container="web"``."""
        path = await self.path(kind)
        parameters = [*query.items(), *([("follow", "true")] if follow else [])]
        answer = await self.open(path.object(name, namespace, "log"), parameters, streams=True)
        try:
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            await answer.close()

    async def connect(
        self, kind: Any, name: str, subresource: str, query: Any = (), *, namespace: str = ""
    ) -> ClientConnection:
        """Connect to ``exec``, ``attach``, ``portforward`` or a subresource of a server's own, over WebSocket.

        The first byte of each message is the channel: 0 stdin, 1 stdout, 2 stderr, 3 the result, 4 resize, 255 close.
        """
        path = await self.path(kind)
        request = self._request("GET", path.object(name, namespace, subresource), tuple(query), streams=True)
        connection = await self._transport.connect(request, _CHANNELS)
        if isinstance(connection, ClientResponse):
            raise error_of(connection.status, connection.headers, await connection.read())
        return connection

    # Requests

    async def path(self, kind: Any) -> KindPath:
        """Where the objects of a kind are. Raises NotFound for a kind that the server doesn't have."""
        known = self._paths.get(kind)
        if known is None:
            known = await self._discovery.find(*split_kind(kind)) if isinstance(kind, str) else path_of_class(kind)
            self._paths[kind] = known
        return known

    async def request(
        self, method: str, path: str, body: Any = None, *, query: Any = (), headers: Mapping[str, str] | None = None
    ) -> Tree:
        """Any request: the answer's JSON. Raises the error that the answer stands for."""
        answer: Tree = await self._ask(method, path, tuple(query), body, headers)
        return answer

    async def _ask(
        self, method: str, path: str, query: Any = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        data = b"" if body is None else encoded(body)
        answer = await self._answer(self._request(method, path, query, data, headers))
        return json.decode(await answer.read())

    async def open(self, path: str, query: Pairs, *, streams: bool = False) -> ClientResponse:
        """A GET whose body the caller reads. Raises the error that the answer stands for."""
        return await self._answer(self._request("GET", path, query, streams=streams))

    async def pause(self, failures: int) -> None:
        """Wait before a watch is opened again: longer with each failure in a row, and not all clients together."""
        if failures:
            longest = min(self._retries.first_wait_s * 2.0 ** min(failures, 20), self._retries.longest_wait_s)
            await self._retries.sleep(longest * random.uniform(0.5, 1.0))

    async def _answer(self, request: ClientRequest) -> ClientResponse:
        answer = await send(self._transport, request, self._retries)
        if answer.status >= 400:
            raise error_of(answer.status, answer.headers, await answer.read())
        return answer

    def _request(
        self,
        method: str,
        path: str,
        query: Any = (),
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        streams: bool = False,
    ) -> ClientRequest:
        own = {"accept": "application/json", "user-agent": self._field_manager}
        if body:
            own["content-type"] = "application/json"
        lines = (*{**own, **(headers or {})}.items(), *self._impersonation)
        return ClientRequest(method, path, query, lines, body, self._timeout_s, streams)

    async def _fetch(self, path: str) -> Any:
        return await self._ask("GET", path)

    async def _outgoing(self, obj: Any, kind: Any) -> tuple[KindPath, Tree]:
        """The path and tree of an object that is to be written."""
        if kind is None:
            kind = f"{obj.get('apiVersion', '')}/{obj.get('kind', '')}" if isinstance(obj, dict) else type(obj)
        path = await self.path(kind)
        return path, tree_of(obj, path)

    def _write_query(self, dry_run: bool = False) -> Pairs:
        return pairs({"dryRun": "All" if dry_run else "", "fieldManager": self._field_manager})

    def _where(self, path: KindPath, tree: Tree, namespace: str, subresource: str) -> str:
        metadata = metadata_of(tree)
        return path.object(metadata.get("name", ""), namespace or metadata.get("namespace", ""), subresource)


def _changed(tree: Tree, path: KindPath, change: Callable[[Any], object]) -> tuple[Tree, Any]:
    """The tree after `change`, and the object it was given. `tree` stays as it was."""
    if path.projection is None:
        copy: Tree = json.decode(json.encode(tree))
        change(copy)
        return copy, copy
    opened = path.projection.open(tree)
    change(opened.object)
    return opened.result(), opened.object


def _items(page: Tree, path: KindPath) -> list[Tree]:
    """The objects of a page. Servers leave out the type of each item of a list."""
    head = {"apiVersion": path.api_version, "kind": path.kind}
    return [{**head, **item} for item in page.get("items") or ()]


def _impersonation(user: User) -> Pairs:
    """The headers that act as `user`. Source: the API server's documentation of user impersonation."""
    lines = [("impersonate-user", user.name), *(("impersonate-group", group) for group in user.groups)]
    if user.uid:
        lines.append(("impersonate-uid", user.uid))
    for key, values in user.extra.items():
        lines += [(f"impersonate-extra-{quote(key.lower(), safe='')}", value) for value in values]
    return lines
