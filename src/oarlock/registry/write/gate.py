"""`Gate`: what the recipes ask about a write: admission, and permission for another verb.

Which admission plugins are interested is asked at each request, because their configuration changes while the server
runs: neither a route nor a resource remembers anything about it.
Must not know: what plugins are. See also: ``policy.admission``, which implements it.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from oarlock.meta.context import Context
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind
from oarlock.registry.served import Served
from oarlock.registry.workers import Offload
from oarlock.registry.write.claims import Claims

__all__ = ["NOT_AT_HAND", "AdmissionRequest", "Gate", "Hub", "Reviewers"]

Hub = tuple[Tree | None, Tree | None]
"""The new and the old object in the hub version; None if there is none, or if it wasn't converted."""

NOT_AT_HAND: Final[Hub] = (None, None)


class AdmissionRequest(NamedTuple):
    """A request that admission is asked about, without its objects.

    `operation` is CREATE, UPDATE, DELETE or CONNECT. `body_kind` is set if the object under review is the body of a
    subresource and not an object of `served`.
    """

    ctx: Context
    operation: str
    served: Served
    body_kind: GroupVersionKind | None = None


class Reviewers(Protocol):
    """The admission plugins that are interested in one request. One that waits is called in a task.

    `reserves` says whether one of them takes something for the object, by `reserve`.
    Trees are in the request version. `offload` runs all but the plugins' own code, in a thread for a large object.
    """

    @property
    def reserves(self) -> bool: ...

    async def mutate(self, new: Tree | None, old: Tree | None, offload: Offload) -> Tree | None:
        """Mutating admission: returns `new`, or another tree if a plugin has changed it.

        Called again when a write is retried after a conflict. Raises `errors.StatusError` to refuse.
        """
        ...

    async def validate(self, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND) -> None:
        """Validating admission: looks at the final object and may refuse it. Changes nothing.

        `hub` has both objects in the hub version, if they were converted for the resource's own hooks.
        """
        ...

    async def reserve(self, new: Tree, old: Tree | None, claims: Claims) -> None:
        """Take the shared resources that the final, validated object needs, and record them in `claims`.

        Raises `errors.StatusError` when there isn't enough.
        """
        ...


class Gate(Protocol):
    """Admission and secondary authorization of a server. The recipes are handed one with each request."""

    def reviewers(self, request: AdmissionRequest) -> Reviewers | None:
        """The plugins that are interested in `request` now; None if there are none, so that no trees need be made."""
        ...

    async def may(self, ctx: Context, verb: str) -> None:
        """Check that the user may also use another verb (``create`` for a PUT that creates). Raises Forbidden."""
        ...
