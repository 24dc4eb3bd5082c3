"""`ParamReader`: reads the objects that parameterize a policy where it is bound.

They are read at each request that a policy with parameters is asked about, so that they count at once.
Source: k8s.io/apiserver ``admission/plugin/policy/generic`` (CollectParams).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from oarlock.apps.controllers.served_kinds import find_kind
from oarlock.client.client import Client
from oarlock.client.kinds import ResourceRef
from oarlock.client.transport import TransportError
from oarlock.meta.errors import NotFound, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind
from oarlock.meta.labels import SelectorError, from_label_selector
from oarlock.policy.admission.policies.request_tree import RequestedResource
from oarlock.server.description import LiveCatalog

FindKind = Callable[[GroupVersionKind], Awaitable[ResourceRef | None]]
"""The resource that has a kind now; None if none has."""

ParamType = tuple[str, str]

MOST_PARAMS = 1000
"""How many objects one binding may be parameterized by."""

_NONE = "no params found for policy binding with `Deny` parameterNotFoundAction"


class ParamError(Exception):
    """A policy or a binding can't be used as it is configured."""


def kinds_served_here(live: LiveCatalog) -> FindKind:
    """Finds what is in the catalog of this server."""

    async def find(kind: GroupVersionKind) -> ResourceRef | None:
        return find_kind(live.current, kind)

    return find


def kinds_served_at(client: Client) -> FindKind:
    """Finds what the server of `client` serves."""

    async def find(kind: GroupVersionKind) -> ResourceRef | None:
        try:
            return await client.ref(f"{kind.api_version}/{kind.kind}")
        except (StatusError, TransportError):
            return None

    return find


class ParamReader:
    """Reads over `client`, which it needs before it can; `find` says which resource has a kind there."""

    def __init__(self, find: FindKind) -> None:
        self.client: Client | None = None
        self._find = find

    async def check(self, kind: ParamType | None) -> None:
        """Raises ParamError unless the kind is served."""
        if kind is not None:
            await self.ref(kind)

    async def ref(self, kind: ParamType) -> ResourceRef:
        """The resource that has a kind now. Raises ParamError."""
        group, _, version = kind[0].rpartition("/")
        found = await self._find(GroupVersionKind(group, version, kind[1]))
        if found is None:
            text = f"{group}/{version}, Kind={kind[1]}"
            raise ParamError(f"failed to find resource referenced by paramKind: '{text}'")
        return found

    async def read(
        self, kind: ParamType | None, reference: Mapping[str, Any] | None, asked: RequestedResource, namespace: str
    ) -> list[Tree | None]:
        """The objects, or None in place of them where there are to be none. Raises ParamError.

        `namespace` is that of the request.
        """
        if kind is None or reference is None:
            return [None]
        given, ref = str(reference.get("namespace") or ""), await self.ref(kind)
        if ref.namespaced:
            namespace = given or namespace
            if not namespace:
                raise ParamError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        else:
            if given:
                raise ParamError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
            namespace = ""
        found = await self._objects(ref, reference, namespace)
        if not found and reference.get("parameterNotFoundAction") != "Allow":
            raise ParamError(_NONE)
        return found

    async def _objects(self, ref: ResourceRef, reference: Mapping[str, Any], namespace: str) -> list[Tree | None]:
        client = self.client
        if client is None:
            raise ParamError("the server hasn't started")
        found: list[Tree | None] = []
        try:
            name = str(reference.get("name") or "")
            if name:
                return [await client.get(ref, name, namespace=namespace)]
            selector = str(from_label_selector(reference.get("selector") or {}))
            listed = client.list(ref, namespace=namespace, label_selector=selector)
            async with aclosing(listed) as objects:
                async for param in objects:
                    found.append(param)
                    if len(found) > MOST_PARAMS:
                        raise ParamError(f"paramRef.selector selects more than {MOST_PARAMS} objects")
        except NotFound:
            return []
        except (StatusError, TransportError, SelectorError) as error:
            raise ParamError(str(error)) from error
        return found
