"""Which resource has a kind: from a declared class at once, from ``group/version/Kind`` by the server's discovery.

Must not know: transports. See also: `client`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from oarlock.client.transport import TransportError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import NotFound, StatusError
from oarlock.meta.kinds import GroupKind, GroupResource, GroupVersion
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.definitions import plural_of
from oarlock.schema.types.projections import Projection, projection_of
from oarlock.schema.types.resources import Declared, declared


@dataclass(frozen=True, slots=True)
class ResourceRef:
    """A resource in one version: the path of its objects, and their `kind`.

    `projection` is that of a declared class, None for trees.
    """

    resource: GroupResource
    version: str
    kind: str
    namespaced: bool
    projection: Projection | None = None

    def __str__(self) -> str:
        """As messages name it: ``apps/v1/Deployment``."""
        return f"{self.api_version}/{self.kind}"

    @property
    def group(self) -> str:
        return self.resource.group

    @property
    def plural(self) -> str:
        return self.resource.resource

    @property
    def api_version(self) -> str:
        group = self.resource.group
        return f"{group}/{self.version}" if group else self.version

    def collection(self, namespace: str) -> str:
        """The path of all objects in a namespace, or in all of them (``""``)."""
        root = f"/apis/{self.resource.group}" if self.resource.group else "/api"
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace and self.namespaced else ""
        return f"{root}/{self.version}{inside}/{self.resource.resource}"

    def object(self, name: str, namespace: str, subresource: str = "") -> str:
        """The path of one object. Raises ValueError when the name or the namespace is missing."""
        if not name:
            raise ValueError(f"the {self.kind} has no name")
        if self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r}: set its namespace: namespace=…")
        path = f"{self.collection(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


def ref_of_class(cls: Any) -> ResourceRef:
    """The resource of a `Resource`, `Spoke` or `Foreign`. Raises KeywordError for any other class."""
    declaration = cls.declaration if isinstance(cls, Foreign) else declared(cls)
    facts = _facts_of_hub(declaration)
    plural = facts.get("plural") or plural_of(declaration.kind)
    return ResourceRef(
        GroupResource(declaration.group, plural),
        declaration.version,
        declaration.kind,
        facts.get("scope", "Namespaced") == "Namespaced",
        projection_of(cls),
    )


def _facts_of_hub(declaration: Declared) -> Mapping[str, Any]:
    """Names and scope are said by the hub."""
    hub = vars(declaration.hub).get("__declared__")
    return hub.facts if isinstance(hub, Declared) else declaration.facts


def split_kind(text: str) -> tuple[str, str]:
    """``apps/v1/Deployment`` → ``apps/v1``, ``Deployment``; ``v1/Secret`` → ``v1``, ``Secret``. Raises ValueError."""
    api_version, _, kind = text.rpartition("/")
    if not kind or not api_version or api_version.count("/") > 1:
        raise ValueError(f"{text!r} isn't a kind: write group/version/Kind, such as apps/v1/Deployment or v1/Secret")
    return api_version, kind


class CatalogTransport(Protocol):
    """What a `Transport` may do besides: tell when a server in this process serves something else."""

    def served_now(self) -> object:
        """What is served; another object than before when that has changed."""
        ...


class Discovery:
    """What a server says it serves, asked once for each group and version until it may have changed.

    `fetch` gets the ``APIResourceList`` at a path. A kind that isn't in it is asked for again: it may have come since.
    Where a kind is can change too, with its definition: all is asked again after `forget`, and when `served_now`, of
    a server in this process, returns something else.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[Any]], served_now: Callable[[], object] | None = None) -> None:
        self._fetch = fetch
        self._served_now = served_now
        self._served: object = None
        self._known: dict[tuple[str, str], ResourceRef] = {}

    async def find(self, api_version: str, kind: str) -> ResourceRef:
        """The resource of a kind. Raises NotFound when the server doesn't serve it, and what `fetch` raises."""
        if self._served_now is not None and self._served_now() is not self._served:
            self.forget()
            self._served = self._served_now()
        all_known = self._known
        known = all_known.get((api_version, kind))
        if known is None:
            await self._ask(api_version, all_known)
            known = all_known.get((api_version, kind))
        if known is None:
            group = GroupVersion.parse(api_version).group
            raise NotFound(GroupKind(group, kind), "", f"the server has no {kind} in {api_version}")
        return known

    def forget(self) -> None:
        """Ask again."""
        self._known = {}  # another one: what is being asked for goes into the old one

    def note(self, error: StatusError) -> None:
        """Told of each refusal: one that is about no object says that what is served isn't where it was."""
        if error.code == 405 or (error.code == 404 and not (error.details or {}).get("name")):
            self.forget()

    async def _ask(self, api_version: str, known: dict[tuple[str, str], ResourceRef]) -> None:
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            tree = await self._fetch(root)
        except StatusError as error:
            if error.code == 404:
                return
            raise
        try:
            served = GroupVersion.parse(api_version)
            refs = [_listed(served, resource) for resource in tree["resources"]]
            found = {(api_version, ref.kind): ref for ref in refs if "/" not in ref.plural}
        except (KeyError, TypeError):
            raise TransportError(f"the answer at {root} isn't an APIResourceList", sent=True) from None
        known.update(found)


def _listed(served: GroupVersion, listed: Mapping[str, Any]) -> ResourceRef:
    """What an ``APIResource`` says. Raises KeyError, TypeError."""
    return ResourceRef(
        GroupResource(served.group, listed["name"]), served.version, listed["kind"], listed["namespaced"]
    )
