"""`QuotaRecount`: keeps the status of quotas what there really is. kube-controller-manager's resourcequota-controller.

What is counted is found in the catalog of the server, and a name that nothing serves waits there until something does.
What is deleted is taken off at once, by as much as it used: objects that were charged and aren't stored yet stay
charged. What was charged and never stored is found by counting, when nothing was charged for some seconds.
See also: `charging`. Source: Kubernetes' resource quota controller, in behaviour.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from oarlock.apps.controllers.quota.usage import (
    WITH_AMOUNTS,
    Amounts,
    amounts_of,
    count_name,
    counted_resource,
    is_in_scopes,
    only,
    summed,
    usage_of,
)
from oarlock.apps.controllers.served_kinds import LiveKinds, ServedKind
from oarlock.apps.kinds.quotas import ResourceQuota
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.observers import Observer, ReadableObject
from oarlock.client.informers.partial_objects import ByteInformer
from oarlock.client.transport import TransportError
from oarlock.codec import json
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.running.leases import LeaderLost
from oarlock.controllers.running.work_queue import WorkQueue
from oarlock.meta.errors import Conflict, NotFound, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource, NamespacedName
from oarlock.meta.quantities import Quantity
from oarlock.schema.types.views import builtins_of
from oarlock.server.description import LiveCatalog
from oarlock.storage.pacing import Pacer

log = logging.getLogger("oarlock.controllers")

QUIET_S = 10.0
"""After so long without a charge, what was charged and isn't there won't come any more."""
RESYNC_S = 300.0
CALM_S = 0.5
"""How long is waited for more kinds when some have come."""
AT_ONCE = 200
"""How many names of a quota are read before others have a turn."""
WORKERS = 5
ZERO = Quantity()


class QuotaRecount:
    """Runs as one of a server's controllers. `live` is what that server serves."""

    name = "resourcequota-controller"

    def __init__(self, live: LiveCatalog) -> None:
        self._live = live

    async def run(self, client: Client, clock: TimerClock) -> None:
        await _Recounting(client, clock, self._live).run()


class _Recounting:
    """One run."""

    def __init__(self, client: Client, clock: TimerClock, live: LiveCatalog) -> None:
        self._client = client
        self._live = live
        self._kinds = LiveKinds()
        self._clock = clock
        self._queue = WorkQueue(clock)
        self._quotas = client.informer(ResourceQuota)
        self._quotas.add_index("namespace", lambda quota: (quota.metadata.namespace or "",))
        self._quotas.add_handler(self._quota_changed)
        self._waiting: set[ObjectKey] = set()
        """Quotas that name something that isn't served."""
        self._following: dict[GroupResource, asyncio.Task[None]] = {}
        self._freed: dict[ObjectKey, dict[str, Quantity]] = {}
        """What of each quota isn't used any more, and isn't taken off yet."""
        self._changed_at: dict[ObjectKey, float] = {}
        """When each quota was charged last, as far as was seen here."""

    async def run(self) -> None:
        tasks: list[asyncio.Task[None]] = []
        try:
            async with self._quotas:
                await self._quotas.synced()
                tasks = [asyncio.create_task(self._work(), name=f"{QuotaRecount.name} {n}") for n in range(WORKERS)]
                tasks.append(asyncio.create_task(self._resync(), name=f"{QuotaRecount.name} resync"))
                tasks.append(asyncio.create_task(self._follow_catalog(), name=f"{QuotaRecount.name} catalog"))
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                ended.pop().result()
        finally:
            self._queue.shut_down(drain=False)
            tasks += self._following.values()
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    # What happens

    def _quota_changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is None:
            if old is not None:
                key = _key(old)
                self._freed.pop(key, None)
                self._changed_at.pop(key, None)
                self._waiting.discard(key)
            return
        key = _key(new)
        self._changed_at[key] = self._clock.monotonic()
        if old is None or new.spec != old.spec or new.status is None or new.status.hard != new.spec.hard:
            self._queue.add(key)
        else:
            self._queue.add_after(key, QUIET_S)

    def _object_changed(
        self,
        resource: GroupResource,
        key: NamespacedName,
        old: ReadableObject[Tree] | None,
        new: ReadableObject[Tree] | None,
    ) -> None:
        """An object uses less than it did, or nothing any more."""
        if old is None or (new is not None and resource not in WITH_AMOUNTS):
            return
        quotas = self._quotas.by_index("namespace", key[0])
        if not quotas:
            return
        before, after = old.read() or {}, None if new is None else new.read()
        used = usage_of(resource, before)
        left = {} if after is None else usage_of(resource, after)
        freed = {name: amount - left.get(name, ZERO) for name, amount in used.items() if left.get(name, ZERO) < amount}
        for quota in quotas if freed else ():
            if is_in_scopes(resource, before, _spec(quota)):
                mine = _key(quota)
                self._freed[mine] = summed((self._freed.get(mine, {}), only(freed, quota.spec.hard)))
                self._queue.add(mine)

    async def _resync(self) -> None:
        while True:
            await self._clock.sleep(RESYNC_S)
            for quota in self._quotas:
                self._queue.add(_key(quota))

    async def _follow_catalog(self) -> None:
        """Look again at quotas that name something that isn't served, when something else is."""
        catalog = await self._live.after(None)
        while True:
            catalog = await self._live.after(catalog)
            await self._clock.sleep(CALM_S)
            for key in tuple(self._waiting):
                self._queue.add(key)

    # What is done

    async def _work(self) -> None:
        while (key := await self._queue.get()) is not None:
            try:
                await self._recount(key)
                self._queue.forget(key)
            except Conflict:
                self._queue.retry(key)  # somebody has charged it meanwhile
            except (StatusError, TransportError, LeaderLost) as error:
                log.info("the quota %s can't be counted, again in %.3g s: %s", key, self._queue.retry(key), error)
            except Exception:
                log.exception("the quota %s can't be counted, again in %.3g s", key, self._queue.retry(key))
            finally:
                self._queue.done(key)

    async def _recount(self, key: ObjectKey) -> None:
        path = (await self._client.ref(ResourceQuota)).object(key.name, key.namespace)
        try:
            tree = await self._client.request("GET", path)
        except NotFound:
            self._waiting.discard(key)
            return
        spec, status = tree.get("spec") or {}, tree.get("status") or {}
        hard, used = await _read_amounts(spec.get("hard")), await _read_amounts(status.get("used"))
        freed = self._freed.pop(key, {})
        try:
            counted = await self._counted(key.namespace, spec, hard)
            quiet_s = self._clock.monotonic() - self._changed_at.get(key, self._clock.monotonic())
            new = _settled(used, counted, freed, quiet=quiet_s >= QUIET_S)
            (self._waiting.discard if counted.keys() == hard.keys() else self._waiting.add)(key)
            if new != counted:
                left_s = QUIET_S - quiet_s
                self._queue.add_after(key, left_s if left_s > 0 else QUIET_S)
            wanted = {"hard": await _wire(hard), "used": await _wire(new)}
            if wanted != {"hard": status.get("hard") or {}, "used": status.get("used") or {}}:
                await self._client.request("PUT", f"{path}/status", {**tree, "status": wanted})
        except BaseException:
            self._freed[key] = summed((self._freed.get(key, {}), freed))
            raise

    async def _counted(self, namespace: str, spec: Tree, hard: Amounts) -> dict[str, Quantity]:
        """How much there is of what a quota limits, as far as it can be counted."""
        by_resource: dict[GroupResource, list[str]] = {}
        served, pacer = (await self._kinds.now(self._live)).by_resource, Pacer()
        for number, name in enumerate(hard):
            if not number % AT_ONCE:
                await pacer.turn()
            resource = counted_resource(name)
            if resource is not None and (resource in served or not resource.group):
                by_resource.setdefault(resource, []).append(name)
        counted: dict[str, Quantity] = {}
        for resource, names in by_resource.items():
            await pacer.turn()
            kind = served.get(resource)
            if kind is None:
                counted.update(dict.fromkeys(names, ZERO))  # none of them can exist
                continue
            self._follow(kind)
            counted.update(dict.fromkeys(names, ZERO))
            counted.update(only(await self._usage(kind, namespace, spec), names))
        return counted

    async def _usage(self, kind: ServedKind, namespace: str, spec: Tree) -> dict[str, Quantity]:
        scoped = bool(spec.get("scopes") or spec.get("scopeSelector"))
        if kind.resource in WITH_AMOUNTS or scoped:
            trees = self._client.list(kind.ref, namespace=namespace)
            return summed(
                [usage_of(kind.resource, tree) async for tree in trees if is_in_scopes(kind.resource, tree, spec)]
            )
        page = await self._client.request("GET", kind.ref.collection(namespace), query=[("limit", "1")])
        number = Quantity(len(page["items"]) + (page["metadata"].get("remainingItemCount") or 0))
        return {count_name(kind.resource): number, kind.resource.resource: number}

    def _follow(self, kind: ServedKind) -> None:
        """Be told when an object of a kind that some quota limits uses less."""
        resource = kind.resource
        if resource in self._following or not kind.verbs.issuperset(("list", "watch")):
            return
        informer: ByteInformer[Tree] = ByteInformer(kind.ref, self._client, partial(_read, resource))
        changed = self._object_changed
        informer.observers.add(Observer(lambda key, old, new: changed(resource, key, old, new)))
        task = asyncio.create_task(self._keep(informer, resource), name=f"{QuotaRecount.name}: {resource}")
        self._following[resource] = task

    async def _keep(self, informer: ByteInformer[Tree], resource: GroupResource) -> None:
        try:
            await informer.run()
        except (StatusError, TransportError) as error:
            log.info("%s can't be followed any more, the next count begins again: %s", resource, error)
        finally:
            self._following.pop(resource, None)


def _settled(used: Amounts, counted: Amounts, freed: Amounts, *, quiet: bool) -> dict[str, Quantity]:
    """What a quota is to show: not less than there is, and what was charged lately."""
    new: dict[str, Quantity] = {}
    for name, amount in counted.items():
        known = used.get(name)
        if known is None or quiet or known < amount:
            new[name] = amount
        else:
            left = known - freed.get(name, ZERO)
            new[name] = amount if left < amount else left
    return new


async def _read_amounts(tree: Tree | None) -> dict[str, Quantity]:
    """The amounts in a tree, which may have thousands."""
    parts: dict[str, Quantity] = {}
    for number, (name, value) in enumerate((tree or {}).items(), 1):
        parts.update(amounts_of({name: value}))
        if not number % AT_ONCE:
            await asyncio.sleep(0)
    return parts


async def _wire(amounts: Amounts) -> dict[str, str]:
    parts: dict[str, str] = {}
    for number, (name, amount) in enumerate(amounts.items(), 1):
        parts[name] = str(amount)
        if not number % AT_ONCE:
            await asyncio.sleep(0)
    return parts


def _read(resource: GroupResource, data: bytes) -> Any:
    """An object, if it matters what it is."""
    return json.decode(data) if resource in WITH_AMOUNTS else {}


def _spec(quota: ResourceQuota) -> Tree:
    tree: Tree = builtins_of(quota.spec)
    return tree


def _key(quota: ResourceQuota) -> ObjectKey:
    return ObjectKey(quota.metadata.namespace or "", quota.metadata.name)
