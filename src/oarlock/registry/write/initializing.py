"""Initializers: asynchronous admission. A new object waits, unseen, until each of its initializers has had its turn.

An object whose definition names initializers is created with ``metadata.initializers.pending``, and is shown only to
who asks for ``includeUninitialized`` until that is empty. The first of the list has its turn: it removes its own name,
or sets ``metadata.initializers.result``, by which the object is deleted and its create fails. The create waits for that
(`until_initialized`), from the revision that it made, whichever server it happens on. Source: the Initializers of
Kubernetes 1.7 to 1.13 (alpha), and their admission plugin.
Must not know: who initializes. See also: `recipe`, which calls this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from oarlock.client.requests import error_of_tree
from oarlock.meta.context import Target
from oarlock.meta.errors import Forbidden, InternalError, InvalidObject, StatusError, Timeout
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, TooMany
from oarlock.meta.json_trees import Tree
from oarlock.meta.names import qualified_name
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.write.write_request import WriteRequest
from oarlock.schema.definition import ResourceDefinition
from oarlock.storage.backend import Unavailable
from oarlock.storage.cache.entry import CacheEvent, Entry, TooOld

__all__ = [
    "INITIALIZE",
    "begin_initializing",
    "check_initializing",
    "is_refused",
    "is_uninitialized",
    "may_initialize",
    "refusal",
    "until_initialized",
]

INITIALIZE = "initialize"
"""The verb of who may see and change what isn't initialized yet."""

MAX_PENDING = 32
"""The most initializers that a request may name itself."""

_PATH = "metadata.initializers"
_COMPLETED = "field is immutable once initialization has completed"
_IN_TURN = "initializers are removed in order: only the first may be"


def is_uninitialized(entry: Entry) -> bool:
    """Whether the object has pending initializers. Only for an entry of a resource with initializers."""
    return bool(entry.fields[-1])


def is_refused(definition: ResourceDefinition, tree: Tree) -> bool:
    """Whether an initializer has refused the object."""
    return bool(definition.initializers) and (tree["metadata"].get("initializers") or {}).get("result") is not None


async def begin_initializing(write: WriteRequest, new: Tree) -> None:
    """Put the initializers of the definition on a new object.

    Who may initialize may name others, or none with an empty list. Raises Forbidden, InvalidObject.
    """
    metadata = new["metadata"]
    given = metadata.get("initializers")
    if given is None:
        metadata["initializers"] = {"pending": [{"name": name} for name in write.definition.initializers]}
        return
    await may_initialize(write, "create with initializers denied")
    given.pop("result", None)
    pending = given.get("pending") or []
    errors: list[FieldError] = []
    if len(pending) > MAX_PENDING:
        errors.append(TooMany(f"{_PATH}.pending", len(pending), MAX_PENDING))
    for at, initializer in enumerate(pending[:MAX_PENDING]):
        name = initializer.get("name") or ""
        errors += [Invalid(f"{_PATH}.pending[{at}].name", name, text) for text in qualified_name(name)]
    if errors:
        raise InvalidObject(write.definition.hub_kind, metadata.get("name", ""), errors)
    if not pending:
        del metadata["initializers"]


async def check_initializing(write: WriteRequest, new: Tree, old: Tree) -> None:
    """Check what an update does to the initializers of an object. An empty list is the same as none.

    Raises Forbidden for an object that isn't initialized, unless the user may initialize it; and InvalidObject.
    """
    before, after = old["metadata"].get("initializers"), new["metadata"].get("initializers")
    if after is not None and not after.get("pending") and after.get("result") is None:
        after = None
        del new["metadata"]["initializers"]
    if before is None and after is None:
        return
    errors = _transition_errors(before, after or {})
    if errors:
        raise InvalidObject(write.definition.hub_kind, new["metadata"].get("name", ""), errors)
    await may_initialize(write, "update to uninitialized resource denied")


def _transition_errors(before: Tree | None, after: Tree) -> list[FieldError]:
    if before is None:
        return [Invalid(_PATH, after, _COMPLETED)]
    was, pending = _names(before), _names(after)
    errors: list[FieldError] = []
    if pending not in (was, was[1:]):
        errors.append(Invalid(f"{_PATH}.pending", pending, _IN_TURN))
    refused, result = before.get("result"), after.get("result")
    if refused is not None and result != refused:
        errors.append(Invalid(f"{_PATH}.result", result, "field is immutable"))
    elif result is not None and result.get("status") != "Failure":
        errors.append(NotSupported(f"{_PATH}.result.status", result.get("status", ""), ["Failure"]))
    return errors


def _names(initializers: dict[str, Any]) -> list[str]:
    return [initializer.get("name", "") for initializer in initializers.get("pending") or ()]


async def may_initialize(write: WriteRequest, what: str) -> None:
    """Raises Forbidden unless the user may initialize the object."""
    ctx = write.ctx
    target: Target = replace(ctx.target, subresource="")
    try:
        await write.gate.may(msgspec.structs.replace(ctx, target=target), INITIALIZE)
    except Forbidden as error:
        raise Forbidden(target.group_resource, target.name, f"{what}: {error.message}") from None


_OnInitialized = Callable[[Entry | Exception], None]


def refusal(entry: Entry) -> StatusError | None:
    """The error that an initializer has left in the object, if one has refused it."""
    tree = msgspec.json.decode(b"{" + entry.body)
    result = (tree["metadata"].get("initializers") or {}).get("result")
    if result is None:
        return None
    code = result.get("code")
    known = {**result, "code": code if isinstance(code, int) and 400 <= code < 600 else 500}
    return error_of_tree(known)


async def until_initialized(resource: StoredResource, entry: Entry, timeout_s: float) -> Entry:
    """The object once it is initialized; `entry` is what it was when it was created.

    Raises the error it was refused with; Timeout after `timeout_s`; InternalError if it was deleted meanwhile.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Entry] = loop.create_future()
    what = f"the initialization of {resource.definition.group_resource} {entry.name}"
    late = Timeout(f"server has timed out waiting for {what}")

    def end(outcome: Entry | Exception) -> None:
        if done.done():
            return
        if isinstance(outcome, Entry):
            done.set_result(outcome)
        else:
            done.set_exception(outcome)

    def look(events: Sequence[CacheEvent]) -> None:
        for event in events:
            if event.entry.key == entry.key and (event.type == "DELETED" or not event.entry.broken):
                _judge(event, end)

    try:
        subscription = resource.cache.subscribe(entry.rev, look, lambda error: end(late))
    except (TooOld, Unavailable):
        raise late from None
    timer = loop.call_later(max(0.0, timeout_s), end, late)
    try:
        return await done
    finally:
        timer.cancel()
        subscription.close()


def _judge(event: CacheEvent, end: _OnInitialized) -> None:
    if is_uninitialized(event.entry):
        error = refusal(event.entry)
        if error is None and event.type == "DELETED":
            error = InternalError("object deleted while waiting for creation")
        if error is not None:
            end(error)
    elif event.type == "DELETED":
        end(InternalError("object deleted while waiting for creation"))
    else:
        end(event.entry)
