"""`QuotaLedger`: adds what new objects use to the status of their namespace's quotas, or says why there is no room.

A charge is a write of the quota on the revision that was looked at, so several servers together let nobody have too
much. Those that wait for the same namespace are charged together. What is refused is refused after another look at the
server. See also: `limiting`, which charges; `recount`, which finds out what was charged and never stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import field
from typing import Any

from oarlock.apps.controllers.quota.usage import (
    PODS,
    Amounts,
    amounts_of,
    exceeded,
    is_in_scopes,
    only,
    shown,
    summed,
    unsaid,
    wire,
)
from oarlock.apps.kinds.quotas import ResourceQuota
from oarlock.client.client import Client
from oarlock.client.transport import TransportError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Conflict, Forbidden, NotFound, ServerTimeout, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource

ATTEMPTS = 30
"""How often charges are tried while other servers are faster."""
RELEASES = 3
"""How often it is tried to take a charge off while other servers are faster."""
RELEASE_S = 5.0
"""Quotas that nobody has charged for ten seconds are counted."""
MOST_AT_ONCE = 256
"""How many objects are charged with one write."""


@dataclass(slots=True, eq=False)
class Charge:
    """What one object is to use more than before. `charged` are the quotas that count it by now."""

    resource: GroupResource
    name: str
    tree: Tree
    used: Amounts
    dry_run: bool = False
    charged: set[str] = field(default_factory=set)
    charged_at: float = 0.0


@dataclass(slots=True)
class _Quota:
    """A quota as it was read, with what is charged since."""

    tree: dict[str, Any]
    hard: dict[str, Any]
    used: dict[str, Any]
    changed: list[Charge] = field(default_factory=list)

    @property
    def name(self) -> str:
        name: str = self.tree["metadata"]["name"]
        return name


@dataclass(slots=True)
class _ChargeQueue:
    charges: list[tuple[Charge, asyncio.Future[None]]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class QuotaLedger:
    """The ledger of one server. It needs a `client` before it can charge."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self._waiting: dict[str, _ChargeQueue] = {}

    async def charge(self, namespace: str, charge: Charge) -> None:
        """Raises Forbidden when there is no room, and what reading and writing quotas raises."""
        waiting = self._waiting.setdefault(namespace, _ChargeQueue())
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.charges.append((charge, future))
        if waiting.task is None:
            waiting.task = asyncio.create_task(self._work(namespace, waiting), name=f"quotas of {namespace}")
        await future

    async def release(self, namespace: str, charge: Charge) -> None:
        """Take off what was charged for an object that isn't stored after all. Raises StatusError, TransportError.

        Only soon after it was charged: later the quotas have been counted anew.
        """
        for _ in range(RELEASES):
            if not charge.charged or asyncio.get_running_loop().time() - charge.charged_at > RELEASE_S:
                return
            quotas = [quota for quota in await self._read(namespace, charge.used) if quota.name in charge.charged]
            charge.charged = {quota.name for quota in quotas}
            for quota in quotas:
                more = only({name: amount for name, amount in charge.used.items() if amount}, quota.hard)
                quota.used = {name: quota.used[name] - amount for name, amount in more.items() if name in quota.used}
                if await self._write(quota):
                    charge.charged.discard(quota.name)

    async def _work(self, namespace: str, waiting: _ChargeQueue) -> None:
        while waiting.charges:
            batch, waiting.charges = waiting.charges[:MOST_AT_ONCE], waiting.charges[MOST_AT_ONCE:]
            batch = [waiting for waiting in batch if not waiting[1].done()]
            try:
                refused = await self._charge(namespace, [charge for charge, _ in batch])
            except Exception as error:
                for _, future in batch:
                    _fail(future, error)
            else:
                for charge, future in batch:
                    error_of_one = refused.get(id(charge))
                    if error_of_one is not None:
                        _fail(future, error_of_one)
                    elif not future.done():
                        future.set_result(None)
        del self._waiting[namespace]

    async def _charge(self, namespace: str, charges: list[Charge]) -> dict[int, StatusError]:
        """Charge what there is room for; returns why others are refused, by id."""
        for _ in range(ATTEMPTS):
            quotas = await self._read(namespace, {name for charge in charges for name in charge.used})
            refused: dict[int, StatusError] = {}
            for charge in charges:
                error = _refusal(quotas, charge)
                if error is not None:
                    refused[id(charge)] = error
                elif not charge.dry_run:
                    _add(quotas, charge)
            if await self._write_all(quotas):
                return refused
        raise ServerTimeout(charges[0].resource, "create")

    async def _read(self, namespace: str, names: Collection[str]) -> list[_Quota]:
        """The quotas, with what they say of `names`: they may say something of thousands."""
        assert self.client is not None
        quotas = await self.client.ref(ResourceQuota)
        listed = await self.client.request("GET", quotas.collection(namespace))
        trees = sorted(listed["items"], key=lambda tree: str(tree["metadata"]["name"]))
        statuses = [(tree, tree.get("status") or {}) for tree in trees]
        return [
            _Quota(tree, _among(status.get("hard"), names), _among(status.get("used"), names))
            for tree, status in statuses
        ]

    async def _write_all(self, quotas: list[_Quota]) -> bool:
        """Whether all that was charged is written; else others were faster, and the rest is charged anew."""
        for quota in quotas:
            if not quota.changed:
                continue
            if not await self._write(quota):
                return False
            for charge in quota.changed:
                charge.charged.add(quota.name)
                charge.charged_at = asyncio.get_running_loop().time()
        return True

    async def _write(self, quota: _Quota) -> bool:
        """Whether what is used is written; else others were faster."""
        assert self.client is not None
        metadata = quota.tree["metadata"]
        before = quota.tree["status"]
        status = {**before, "used": {**(before.get("used") or {}), **wire(quota.used)}}
        tree = {"apiVersion": "v1", "kind": "ResourceQuota", **quota.tree, "status": status}
        quotas = await self.client.ref(ResourceQuota)
        try:
            await self.client.request("PUT", quotas.object(metadata["name"], metadata["namespace"], "status"), tree)
        except (Conflict, NotFound):
            return False
        return True


def _among(amounts: Tree | None, names: Collection[str]) -> dict[str, Any]:
    return amounts_of({name: amount for name, amount in (amounts or {}).items() if name in names})


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if future.done():
        return
    if isinstance(error, StatusError):
        future.set_exception(error)
    elif isinstance(error, TransportError):
        future.set_exception(ServerTimeout(GroupResource("", "resourcequotas"), "update"))
    else:
        future.set_exception(error)


def _of_interest(quotas: list[_Quota], charge: Charge) -> list[_Quota]:
    """The quotas that count the object, and haven't yet."""
    return [
        quota
        for quota in quotas
        if quota.name not in charge.charged and is_in_scopes(charge.resource, charge.tree, quota.tree.get("spec") or {})
    ]


def _refusal(quotas: list[_Quota], charge: Charge) -> StatusError | None:
    """Why there is no room for an object; None if there is."""
    asked = {name: amount for name, amount in charge.used.items() if amount}
    interesting = _of_interest(quotas, charge)
    for quota in interesting:
        limited = only(charge.used, quota.hard)
        why = unsaid(charge.tree, (quota.tree.get("status") or {}).get("hard") or ()) if charge.resource == PODS else ""
        if why:
            return Forbidden(charge.resource, charge.name, f"failed quota: {quota.name}: {why}")
        if limited.keys() - quota.used.keys():
            names = ",".join(sorted(limited))
            why = f"status unknown for quota: {quota.name}, resources: {names}"
            return Forbidden(charge.resource, charge.name, why)
    for quota in interesting:
        requested = only(asked, quota.hard)
        too_much = exceeded(only(summed((quota.used, requested)), requested), quota.hard)
        if too_much:
            parts = [shown(only(amounts, too_much)) for amounts in (requested, quota.used, quota.hard)]
            why = "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(quota.name, *parts)
            return Forbidden(charge.resource, charge.name, why)
    return None


def _add(quotas: list[_Quota], charge: Charge) -> None:
    for quota in _of_interest(quotas, charge):
        requested = only({name: amount for name, amount in charge.used.items() if amount}, quota.hard)
        if requested:
            quota.used = summed((quota.used, requested))
            quota.changed.append(charge)
