"""Which path serves a kind: from a declared class at once, from ``group/version/Kind`` by the server's discovery.

Must not know: transports. See also: `client`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from oarlock.client.transport import TransportError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import NotFound, StatusError
from oarlock.meta.kinds import GroupKind, GroupVersion
from oarlock.schema.definitions import plural_of
from oarlock.schema.foreign import Foreign
from oarlock.schema.projections import Projection, projection_of
from oarlock.schema.resources import Declared, declared

__all__ = ["Discovery", "KindPath", "path_of_class", "split_kind"]


@dataclass(frozen=True, slots=True)
class KindPath:
    """Where the objects of a kind are served. `projection` is that of its declared class, None for trees."""

    api_version: str
    kind: str
    resource: str
    namespaced: bool
    projection: Projection | None = None

    def collection(self, namespace: str) -> str:
        """The path of all objects in a namespace, or in all of them (``""``)."""
        group = GroupVersion.parse(self.api_version)
        root = f"/apis/{group}" if group.group else f"/api/{group.version}"
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace and self.namespaced else ""
        return f"{root}{inside}/{self.resource}"

    def object(self, name: str, namespace: str, subresource: str = "") -> str:
        """The path of one object. Raises ValueError when the name or the namespace is missing."""
        if not name:
            raise ValueError(f"the {self.kind} has no name")
        if self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r}: say which namespace it is in: namespace=…")
        path = f"{self.collection(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


def path_of_class(cls: Any) -> KindPath:
    """The path of a `Resource`, `Spoke` or `Foreign`. Raises KeywordError for any other class."""
    declaration = cls.declaration if isinstance(cls, Foreign) else declared(cls)
    facts = _facts_of_hub(declaration)
    return KindPath(
        declaration.gvk.api_version,
        declaration.kind,
        facts.get("plural") or plural_of(declaration.kind),
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
        raise ValueError(f"{text!r} names no kind: write group/version/Kind, such as apps/v1/Deployment or v1/Secret")
    return api_version, kind


class Discovery:
    """What a server says it serves, asked once for each group and version.

    `fetch` gets the ``APIResourceList`` at a path. A kind that isn't in it is asked for again: it may have come since.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[Any]]) -> None:
        self._fetch = fetch
        self._known: dict[tuple[str, str], KindPath] = {}

    async def find(self, api_version: str, kind: str) -> KindPath:
        """The path of a kind. Raises NotFound when the server doesn't serve it, and what `fetch` raises."""
        known = self._known.get((api_version, kind))
        if known is None:
            await self._ask(api_version)
            known = self._known.get((api_version, kind))
        if known is None:
            group = GroupVersion.parse(api_version).group
            raise NotFound(GroupKind(group, kind), "", f"the server has no {kind} in {api_version}")
        return known

    async def _ask(self, api_version: str) -> None:
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            tree = await self._fetch(root)
        except StatusError as error:
            if error.code == 404:
                return
            raise
        try:
            paths = [KindPath(api_version, one["kind"], one["name"], one["namespaced"]) for one in tree["resources"]]
            found = {(api_version, path.kind): path for path in paths if "/" not in path.resource}
        except (KeyError, TypeError):
            raise TransportError(f"the answer at {root} is no APIResourceList", sent=True) from None
        self._known.update(found)
