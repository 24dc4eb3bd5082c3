"""`NodePorts`: gives services their node ports, no two the same, also when servers of a store give some at once.

A service that is stored has its ports; until it is, each is claimed by a key of its own in the store. After claiming,
all services are looked at: who claims a port whose service was stored meanwhile sees that service. Claims vanish by
themselves; ``controllers.service_addresses`` removes them as soon as the service is there.
Source: Kubernetes' allocator of node ports. See also: `addresses`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import InvalidObject, ServiceUnavailable
from oarlock.meta.fielderrors import Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.registry.served import Claims
from oarlock.storage.backend import Backend, Rev, StorageError

SERVICE = "v1/Service"
CLAIMS = "/oarlock/node-ports/"
CLAIM_MS = 120_000
"""How long a port is claimed for a service that is being written: longer than any request takes."""

GUESSES = 32
"""So often others may be faster at the ports that are chosen."""


@dataclass(frozen=True, slots=True)
class PortRange:
    """The ports from `first` to `last`."""

    first: int = 30000
    last: int = 32767

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


def port_range(text: str) -> PortRange:
    """The ports of ``--service-node-port-range``: ``30000-32767``. Raises ValueError."""
    first, dash, last = text.partition("-")
    made = PortRange(int(first), int(last if dash else first))
    if not 1 <= made.first <= made.last <= 65535:
        raise ValueError(f"{text!r} is no range of ports: write 30000-32767")
    return made


def node_ports_of(service: Tree) -> set[int]:
    """The node ports that a service has."""
    return {port["nodePort"] for port in at(service, "spec.ports", ()) if port.get("nodePort")}


class NodePortClaim(NamedTuple):
    """What became of a claim: whether the port is the service's, and the revision of a claim that wasn't there."""

    port: int
    owns: bool
    rev: Rev = 0


class NodePortClaims:
    """The ports that services have which are being written. `store` is the server's, once it runs."""

    def __init__(self, store: Callable[[], Backend]) -> None:
        self._store = store

    async def take(self, port: int, owner: bytes) -> NodePortClaim:
        """Claim a port, unless it is claimed for another service. Raises ServiceUnavailable."""
        try:
            result = await self._store().put(_key(port), owner, expect=0, ttl_ms=CLAIM_MS)
            if result.ok:
                return NodePortClaim(port, owns=True, rev=result.rev)
            if result.current is not None and result.current.value == owner:
                result = await self._store().put(_key(port), owner, expect=result.current.mod_rev, ttl_ms=CLAIM_MS)
        except StorageError as error:
            raise ServiceUnavailable(f"the store can't say whether node port {port} is free: {error}") from error
        return NodePortClaim(port, owns=result.ok)

    async def undo(self, claims: Iterable[NodePortClaim]) -> None:
        """Delete the claims that this request created. Claims that can't be deleted expire."""
        try:
            for claim in claims:
                if claim.rev:
                    await self._store().delete(_key(claim.port), expect=claim.rev)
        except StorageError as error:
            raise ServiceUnavailable(f"claims of node ports stay until they vanish: {error}") from error

    async def settle(self, service: Tree) -> None:
        """Let go of what was claimed for a service that is stored. Raises StorageError."""
        owner = _owner(service)
        for port in node_ports_of(service):
            claim, _ = await self._store().get(_key(port))
            if claim is not None and claim.value == owner:
                await self._store().delete(claim.key, expect=claim.mod_rev)


class NodePorts:
    """Completes services with ports of the `range`."""

    def __init__(self, late: LateClient, claims: NodePortClaims, ports: PortRange) -> None:
        self._late = late
        self._claims = claims
        self._range = ports

    async def complete(self, claims: Claims, made: Tree, before: Tree) -> None:
        """Give every port of the service `made` that needs one a node port. Raises InvalidObject.

        `before` is the spec that is stored.
        """
        spec = made["spec"]
        ports = spec.get("ports") or []
        kind = spec.get("type")
        if kind not in ("NodePort", "LoadBalancer"):
            for port in ports:
                port.pop("nodePort", None)
            return
        own = node_ports_of({"spec": before})
        wants = [port for port in ports if port.get("nodePort") not in own or not port.get("nodePort")]
        if not wants or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False):
            return
        if claims.dry_run:
            self._choose(made, own, await self._used() - own, dry_run=True)
            return
        claims.add(partial(self._claims.undo, await self._claim(made, own)))

    async def _claim(self, made: Tree, own: set[int]) -> list[NodePortClaim]:
        """Choose node ports and claim them. A requested port that another service has is refused."""
        ports, owner = made["spec"].get("ports") or [], _owner(made)
        asked = [dict(port) for port in ports]
        taken: set[int] = set()
        for _ in range(GUESSES):
            for port, wanted in zip(ports, asked, strict=True):
                port.update(wanted) if wanted.get("nodePort") else port.pop("nodePort", None)
            self._choose(made, own, (await self._used() | taken) - own)
            claims = [await self._claims.take(number, owner) for number in sorted(node_ports_of(made) - own)]
            used = await self._used()
            lost = {claim.port for claim in claims if not claim.owns or claim.port in used}
            if not lost:
                return claims
            await self._claims.undo(claims)
            taken |= lost
        raise ServiceUnavailable("others were faster at every node port that was chosen: try again")

    async def _used(self) -> set[int]:
        """The ports of all services that are stored."""
        return {port async for service in self._late.client.list(SERVICE) for port in node_ports_of(service)}

    def _choose(self, made: Tree, own: set[int], used: set[int], *, dry_run: bool = False) -> None:
        """Complete the ports of `made`. A `dry_run` takes any number, as Kubernetes' does. Raises InvalidObject."""
        mine, shared = set[int](), dict[int, int]()
        for i, port in enumerate(made["spec"].get("ports") or ()):
            number = port.get("nodePort") or shared.get(port.get("port", 0))
            if number and number != shared.get(port.get("port", 0)) and (number not in own or number in mine):
                self._check(made, i, number, used | mine, dry_run=dry_run)
            elif not number:
                number = self._free(made, i, used | mine)
            port["nodePort"] = shared[port.get("port", 0)] = number
            mine.add(number)

    def _check(self, made: Tree, i: int, number: int, used: set[int], *, dry_run: bool) -> None:
        why = ""
        if not dry_run and not self._range.first <= number <= self._range.last:
            why = f"provided port is not in the valid range. The range of valid ports is {self._range}"
        elif number in used:
            why = "provided port is already allocated"
        if why:
            raise _refused(made, Invalid(f"spec.ports[{i}].nodePort", number, why))

    def _free(self, made: Tree, i: int, used: set[int]) -> int:
        free = [number for number in range(self._range.first, self._range.last + 1) if number not in used]
        if not free:
            raise _refused(
                made, Invalid(f"spec.ports[{i}].nodePort", 0, "failed to allocate a nodePort: range is full")
            )
        return random.choice(free)


def _owner(service: Tree) -> bytes:
    return f"{service['metadata'].get('namespace', '')}/{service['metadata'].get('name', '')}".encode()


def _key(port: int) -> str:
    return f"{CLAIMS}{port}"


def _refused(made: Tree, error: Invalid) -> InvalidObject:
    return InvalidObject(GroupKind("", "Service"), made["metadata"].get("name", ""), [error])
