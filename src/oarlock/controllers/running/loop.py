"""`ControllerLoop`: one controller at work: its queue, its workers, what puts keys into the queue.

Nothing that user code raises ends it. A `Watchdog` cancels what takes longer than it may, with one timer for all tasks
of a controller; a timer for each reconcile would cost more than the rest of the loop. `take_turn` lets a controller
complete or refuse an object that waits for its initializer.
See also: `controller`, `group`; ``registry.write.initializing``, the rules of a server.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from oarlock.client.clock import TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.client.kinds import ResourceRef
from oarlock.client.objects import metadata_of, shown
from oarlock.client.transport import TransportError
from oarlock.codec import json
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.keys import (
    ObjectKey,
    Result,
    TerminalError,
    add_finalizer,
    checked_key,
    key_of,
    metadata_tree,
    remove_finalizer,
    tree_of_object,
)
from oarlock.controllers.metrics import ControllerNumbers
from oarlock.controllers.owners import controller_of, same_kind
from oarlock.controllers.running.leases import LeaderLost
from oarlock.controllers.running.sources import InformerHandle, InformerPool
from oarlock.controllers.running.work_queue import MAX_QUEUE_BYTES, WorkQueue
from oarlock.controllers.watched import ObjectSelection, Predicate
from oarlock.meta.context import Target
from oarlock.meta.errors import Conflict, Denied, InvalidObject, NotFound, StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.meta.metrics import MetricFamily


class Watchdog:
    """Each task between `begin` and `end` is cancelled after `timeout_s`, and again after as long if it goes on."""

    def __init__(self, clock: TimerClock, timeout_s: float) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._deadlines: dict[asyncio.Task[None], float] = {}
        """In the order in which they are due: all have the same time."""
        self._cancelled: dict[asyncio.Task[None], int] = {}
        self._timer: asyncio.Task[None] | None = None

    def begin(self, task: asyncio.Task[None]) -> None:
        self._deadlines[task] = self._clock.monotonic() + self._timeout_s
        if self._timer is None:
            self._timer = asyncio.create_task(self._watch(), name="watchdog")

    def end(self, task: asyncio.Task[None]) -> bool:
        """Whether the task was cancelled because it took too long. Only others' cancellations are left on it then."""
        del self._deadlines[task]
        times = self._cancelled.pop(task, 0)
        for _ in range(times):
            task.uncancel()
        return times > 0

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _watch(self) -> None:
        while self._deadlines:
            task, deadline = next(iter(self._deadlines.items()))
            left_s = deadline - self._clock.monotonic()
            if left_s > 0:
                await self._clock.sleep(left_s)
                continue
            del self._deadlines[task]
            self._deadlines[task] = self._clock.monotonic() + self._timeout_s
            self._cancelled[task] = self._cancelled.get(task, 0) + 1
            task.cancel()
        self._timer = None


_INCLUDE = (("includeUninitialized", "true"),)


async def take_turn(controller: ControllerBase[Any], key: ObjectKey) -> bool:
    """Call ``initialize`` if it is this controller's turn, and write what came of it.

    Returns whether the object is initialized, and so one to reconcile. Raises what the server refuses with; Conflict
    when another write was faster, after which everything is done again on the newer object.
    """
    client, kind = controller.client, controller.__kind__
    ref = await client.ref(kind)
    where = ref.object(key.name, key.namespace)
    try:
        tree: Tree = await client.request("GET", where, query=_INCLUDE)
    except NotFound:
        return True
    initializers = metadata_of(tree).get("initializers")
    if not initializers:
        return True
    pending = initializers.get("pending") or []
    if initializers.get("result") is not None:
        await client.request("PUT", where, tree)  # which deletes what a server that stopped has left
    elif pending and pending[0].get("name") == controller.__options__.initializer:
        await client.request("PUT", where, await _after_turn(controller, tree, ref))
    return False


async def _after_turn(controller: ControllerBase[Any], tree: Tree, ref: ResourceRef) -> Tree:
    """The object as its initializer leaves it: completed, or refused."""
    made: Tree = json.decode(json.encode(tree))
    opened = None if ref.projection is None else ref.projection.open(made)
    try:
        await controller.initialize(made if opened is None else opened.object)
    except (Denied, FieldError) as error:
        metadata = metadata_of(tree)
        initializers = {**metadata["initializers"], "result": _refusal(error, ref, metadata).status()}
        return {**tree, "metadata": {**metadata, "initializers": initializers}}
    if opened is not None:
        made = opened.result()
    metadata = dict(metadata_of(made))
    rest = metadata_of(tree)["initializers"]["pending"][1:]
    metadata["initializers"] = {"pending": rest}
    if not rest:
        del metadata["initializers"]
    return {**made, "metadata": metadata}


def _refusal(error: Denied | FieldError, ref: ResourceRef, metadata: Tree) -> StatusError:
    """The error with the name of the object."""
    name = metadata.get("name", "")
    if isinstance(error, FieldError):
        return InvalidObject(GroupKind(ref.group, ref.kind), name, [error])
    target = Target("create", ref.group, ref.version, ref.plural, name=name)
    return error.about(target)


SLICE = 500
"""How many objects are put into the queue before others have a turn."""

CANCEL_S = 2.0
"""How long workers have to end when they are cancelled, in seconds."""

KeysOf = Callable[[Any], Iterable[Any]]


class _Feed:
    """One informer that puts keys into the queue: which, and after which changes."""

    def __init__(self, source: InformerHandle, keys_of: KeysOf, when: Predicate | None) -> None:
        self.source = source
        self.keys_of = keys_of
        self.when = when


class ControllerLoop:
    """Follows the informers of a controller from the start; reconciles between `begin` and `end`."""

    def __init__(
        self, controller: ControllerBase[Any], pool: InformerPool, clock: TimerClock, namespace: str = ""
    ) -> None:
        self.controller = controller
        self.options = controller.__options__
        self._log = controller.log
        self._clock = clock
        self._results: dict[str, int] = {}
        self._terminal_errors = 0
        self._timeouts = 0
        self._queue = WorkQueue(clock)
        self._working = False
        self._missed = False
        """Whether the queue had no room for a key of a change."""
        self._room = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._workers: list[asyncio.Task[None]] = []
        self._refill: asyncio.Task[None] | None = None
        self._watchdog = Watchdog(clock, self.options.timeout_s)
        self._feeds = self._made_feeds(pool, namespace)
        self.informers: dict[Any, Informer[Any]] = {}
        for feed in self._feeds:
            self.informers.setdefault(feed.source.kind, feed.source.informer)
            feed.source.informer.add_handler(partial(self._changed, feed))

    def _made_feeds(self, pool: InformerPool, namespace: str) -> list[_Feed]:
        controller, options = self.controller, self.options
        selection = options.selection if not namespace else _within(options.selection, namespace)
        own = pool.get(controller.__kind__, selection)
        feeds = [_Feed(own, lambda obj: (key_of(obj),), options.when)]
        for kind in options.owns:
            source = pool.get(kind, _within(None, selection.namespace))
            feeds.append(_Feed(source, partial(_owner_keys, own), None))
        for watched in options.watches:
            source = pool.get(watched.kind, _within(watched.selection, watched.selection.namespace or namespace))
            keys_of = getattr(controller, watched.to) if isinstance(watched.to, str) else watched.to
            feeds.append(_Feed(source, keys_of, watched.when))
        return feeds

    # What puts keys into the queue

    def _changed(self, feed: _Feed, old: Any, new: Any) -> None:
        """The handler of an informer. What user code raises here is logged, by the informer."""
        if not self._working or not self._counts(feed, old, new):
            return
        if feed is self._feeds[0]:
            self._add(key_of(old if new is None else new))
            return
        if old is not None:
            self._add_keys_of(feed, old)
        if new is not None:
            self._add_keys_of(feed, new)

    def _counts(self, feed: _Feed, old: Any, new: Any) -> bool:
        """Whether a change counts; one for which that can't be told does."""
        try:
            return feed.when is None or feed.when(old, new)
        except Exception:
            self._log.exception("the predicate for a change of %s failed", key_of(old if new is None else new))
            return True

    def _add_keys_of(self, feed: _Feed, obj: Any) -> None:
        for key in self._keys_of(feed, obj):
            self._add(key)

    def _keys_of(self, feed: _Feed, obj: Any) -> Iterable[ObjectKey]:
        for key in feed.keys_of(obj):
            try:
                yield checked_key(key)
            except ValueError as error:
                self._log.warning("left out, of what %s stands for: %s", key_of(obj), error)

    def _add(self, key: ObjectKey) -> None:
        if not self._queue.add(key):
            self._missed = True

    async def _add_all(self) -> None:
        """Put every object's keys into the queue, and wait where it has no room: each comes to its turn."""
        count = 0
        for feed in self._feeds:
            for obj in feed.source.informer:
                try:
                    for key in self._keys_of(feed, obj):
                        while self._working and not self._queue.add(key):
                            self._room.clear()
                            await self._room.wait()
                except Exception:
                    self._log.exception("%s: mapping it to keys failed", key_of(obj))
                count += 1
                if count % SLICE == 0:
                    await asyncio.sleep(0)

    def _on_room(self) -> None:
        """Called when keys were refused and there is room again."""
        self._room.set()
        if self._missed and self._working and (self._refill is None or self._refill.done()):
            self._refill = asyncio.create_task(self._add_missed(), name=f"{self.controller.name}: refill")

    async def _add_missed(self) -> None:
        """Put all keys into the queue, again if changes were refused meanwhile."""
        while self._missed and self._working:
            self._missed = False
            await self._add_all()

    async def _resync(self) -> None:
        while True:
            await self._clock.sleep(self.options.resync_s * random.uniform(0.9, 1.1))
            await self._add_all()

    # Work

    async def begin(self) -> None:
        """Reconcile every object, and what changes from now on, once the informers are synced."""
        self._queue = WorkQueue(
            self._clock, max_bytes=MAX_QUEUE_BYTES, on_room=self._on_room, metrics=self._queue.metrics
        )
        self._working = True
        for feed in self._feeds:
            await feed.source.ready.wait()
        name = self.controller.name
        self._workers = [
            asyncio.create_task(self._work(), name=f"{name}: worker {n}") for n in range(self.options.concurrency)
        ]
        await self._add_all()
        if self.options.resync_s:
            self._tasks.append(asyncio.create_task(self._resync(), name=f"{name}: resync"))

    async def end(self, grace_s: float) -> bool:
        """Take no more keys; what is being reconciled has `grace_s` to end, and is cancelled then.

        Returns whether all has ended: user code may go on although it was cancelled.
        """
        self._working = False
        self._queue.shut_down(drain=False)
        for task in (*self._tasks, *filter(None, (self._refill,))):
            task.cancel()
        self._tasks.clear()
        late = await self._wait_for_workers(grace_s)
        if late and grace_s > 0:
            self._log.warning("%d reconciles have not ended within %g s, and are cancelled", len(late), grace_s)
        for task in late:
            task.cancel()
        late = await self._wait_for_workers(CANCEL_S)
        self._watchdog.stop()
        if late:
            self._log.error("%d reconciles keep running although they were cancelled", len(late))
        return not late

    @property
    def workers(self) -> Sequence[asyncio.Task[None]]:
        """The tasks that reconcile. They end when the queue does."""
        return self._workers

    async def _wait_for_workers(self, grace_s: float) -> set[asyncio.Task[None]]:
        """The workers that haven't ended in this time. Time of the machine counts as well as that of the clock."""
        running = {task for task in self._workers if not task.done()}
        if not running or grace_s <= 0:
            return running
        timer = asyncio.ensure_future(self._clock.sleep(grace_s))
        ending = asyncio.ensure_future(asyncio.wait(running))
        try:
            await asyncio.wait((timer, ending), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            ending.cancel()
        return {task for task in running if not task.done()}

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while (key := await self._queue.get()) is not None:
            try:
                await self._reconcile(key, task)
            finally:
                self._queue.done(key)
            await asyncio.sleep(0)  # a reconcile that never waits lets others have a turn

    async def _reconcile(self, key: ObjectKey, task: asyncio.Task[None]) -> None:
        timed_out = False
        self._watchdog.begin(task)
        try:
            try:
                result = await self._call(key)
            finally:
                timed_out = self._watchdog.end(task)
                if timed_out and not self._working:
                    raise asyncio.CancelledError  # it is stopped as well
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and not self._working:
                raise
            while task.cancelling():
                task.uncancel()  # it cancelled itself
            self._failed(key, error, timed_out)
        else:
            self._succeeded(key, result)

    async def _call(self, key: ObjectKey) -> Any:
        """`reconcile`; before it the finalizer is put on. For an object that is being deleted, `finalize` instead."""
        finalizer = self.options.finalizer
        if self.options.initializer:
            initialized = await take_turn(self.controller, key)
            if not initialized or type(self.controller).reconcile is ControllerBase.reconcile:
                return None
        obj = self.informers[self.controller.__kind__].get(key.name, key.namespace) if finalizer else None
        if obj is None:
            return await self.controller.reconcile(key)
        metadata = metadata_tree(obj)
        if metadata.get("deletionTimestamp"):
            return await self._finalize(key)
        client = self.controller.client
        if finalizer not in (metadata.get("finalizers") or ()):
            await add_finalizer(client, self.controller.__kind__, key, finalizer)
        return await self.controller.reconcile(key)

    async def _finalize(self, key: ObjectKey) -> Any:
        """`finalize`, for the object as it is on the server now: the informer may not know yet that it is done."""
        controller, finalizer = self.controller, self.options.finalizer
        kind, client = controller.__kind__, controller.client
        tree = await tree_of_object(client, kind, key)
        metadata = {} if tree is None else metadata_of(tree)
        if tree is None or not metadata.get("deletionTimestamp") or finalizer not in (metadata.get("finalizers") or ()):
            return None
        result = await controller.finalize(shown(tree, await client.ref(kind)))
        if result is None:
            await remove_finalizer(client, kind, key, finalizer, uid=metadata.get("uid", ""))
        return result

    def _succeeded(self, key: ObjectKey, result: Any) -> None:
        if result is not None and not isinstance(result, Result):
            self._failed(key, TypeError(f"reconcile returned {result!r:.200}: return None, or a Result"), False)
            return
        self._queue.forget(key)
        self._count("success" if result is None else "requeue_after")
        if result is not None:
            self._queue.add_as_said(key, result)

    def _failed(self, key: ObjectKey, error: BaseException, timed_out: bool) -> None:
        self._count("error")
        if timed_out:
            self._timeouts += 1
            wait_s = self._queue.retry(key)
            text = "reconcile of %s was cancelled after %g s, again in %.3g s"
            self._log.error(text, key, self.options.timeout_s, wait_s)
        elif isinstance(error, TerminalError):
            self._terminal_errors += 1
            self._queue.forget(key)
            self._log.error("reconcile of %s failed for good: %s", key, error)
        else:
            self._log_failure(key, error, self._queue.retry(key))

    def _log_failure(self, key: ObjectKey, error: BaseException, wait_s: float) -> None:
        if isinstance(error, StatusError | TransportError | LeaderLost):
            level = logging.INFO if isinstance(error, Conflict | LeaderLost) else logging.ERROR
            self._log.log(level, "reconcile of %s failed, again in %.3g s: %s", key, wait_s, error)
        else:
            self._log.error("reconcile of %s failed, again in %.3g s", key, wait_s, exc_info=error)

    def _count(self, result: str) -> None:
        self._results[result] = self._results.get(result, 0) + 1

    # Seen from outside

    async def idle(self) -> None:
        """Wait until no key is worked on and none could be."""
        await self._queue.idle()

    def numbers(self, leading: bool | None = None) -> ControllerNumbers:
        """A copy of the numbers now."""
        unfinished_s, longest_s = self._queue.unfinished()
        return ControllerNumbers(
            self.controller.name,
            self.options.concurrency,
            self._queue.active,
            dict(self._results),
            self._terminal_errors,
            self._timeouts,
            len(self._queue),
            unfinished_s,
            longest_s,
            self._queue.metrics,
            leading,
            self._own_families(),
        )

    def _own_families(self) -> tuple[MetricFamily, ...]:
        try:
            return tuple(self.controller.metrics())
        except Exception:
            self._log.exception("collecting its own metrics failed")
            return ()


def _within(selection: ObjectSelection | None, namespace: str) -> ObjectSelection:
    """The same objects, in this namespace only."""
    return replace(selection or ObjectSelection(), namespace=namespace)


def _owner_keys(own: InformerHandle, obj: Any) -> Iterable[ObjectKey]:
    """The key of the object of our kind that is the controller of `obj`."""
    reference = controller_of(obj)
    ref = own.informer.ref
    if reference is None or ref is None or not same_kind(reference, ref.api_version, ref.kind):
        return ()
    return (ObjectKey(key_of(obj).namespace if ref.namespaced else "", reference["name"]),)
