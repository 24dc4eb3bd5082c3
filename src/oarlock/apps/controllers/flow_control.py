"""`FlowControl`: keeps the built-in flow schemas and priority levels, and says of each schema whether its level exists.

A mandatory object that was deleted or changed is put back; a suggested one is kept as it is built in while its
annotation ``apf.kubernetes.io/autoupdate-spec`` says so. Every server of a store does this.
Source: KEP-1040; Kubernetes' flow control ensurer. See also: ``policy.fairness.builtin``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.transport import TransportError
from oarlock.meta.errors import AlreadyExists, Conflict, NotFound, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import rfc3339
from oarlock.policy.fairness import builtin
from oarlock.policy.fairness.builtin import AUTO_UPDATE
from oarlock.policy.fairness.settings import EXEMPT

DanglingCondition = tuple[str, str, str]
"""Status, reason and message."""

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def renewed(stored: Tree, wanted: Mapping[str, Any], *, mandatory: bool) -> Tree | None:
    """The object `stored` as it should be, with the spec of `wanted` unless an administrator keeps it; None if it is.

    Somebody who sets the annotation to ``false`` keeps a suggested object, and so does who changed its spec without
    setting it. Of the exempt level, the seats may be changed.
    """
    metadata = stored["metadata"]
    annotations = metadata.get("annotations") or {}
    value = annotations.get(AUTO_UPDATE, "")
    updates = mandatory or (value in _TRUE if value in _TRUE | _FALSE else metadata.get("generation") == 1)
    spec = dict(wanted["spec"])
    if metadata["name"] == EXEMPT and "exempt" in spec and updates and "exempt" in stored["spec"]:
        spec["exempt"] = stored["spec"]["exempt"]
    wanted_value = "true" if updates else "false"
    is_marked = value in (_TRUE if updates else _FALSE)
    if is_marked and (not updates or stored["spec"] == spec):
        return None
    changed = {**stored, "metadata": {**metadata, "annotations": {**annotations, AUTO_UPDATE: wanted_value}}}
    if updates:
        changed["spec"] = spec
    return changed


def dangling(level: str, *, exists: bool) -> DanglingCondition:
    """The condition ``Dangling`` of a schema that refers to `level`."""
    about = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    if exists:
        return "False", "Found", f"{about} and it exists"
    return "True", "NotFound", f"{about} but there is no such object"


log = logging.getLogger("oarlock.fairness")
UPKEEP_S = 60.0
"""How often the objects are looked at although nothing has been heard of them."""

_PRODUCER = "api-priority-and-fairness-config-producer-v1"
_CONSUMER = "api-priority-and-fairness-config-consumer-v1"
_SCHEMA = f"{builtin.API_VERSION}/FlowSchema"
_LEVEL = f"{builtin.API_VERSION}/PriorityLevelConfiguration"


class FlowControl:
    """A `Runnable` for ``APIServer(controllers=…)``."""

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled."""
        changed = asyncio.Event()
        levels, schemas = client.informer(_LEVEL), client.informer(_SCHEMA)
        for informer in (levels, schemas):
            informer.add_handler(lambda old, new: changed.set())
        async with levels, schemas:
            await levels.synced()
            await schemas.synced()
            while True:
                changed.clear()
                try:
                    producer = client.using(field_manager=_PRODUCER)
                    await _keep(producer, _LEVEL, list(levels), builtin.MANDATORY_LEVELS, builtin.SUGGESTED_LEVELS)
                    await _keep(producer, _SCHEMA, list(schemas), builtin.MANDATORY_SCHEMAS, builtin.SUGGESTED_SCHEMAS)
                    await _update_conditions(
                        client, clock, {level["metadata"]["name"] for level in levels}, list(schemas)
                    )
                except (StatusError, TransportError) as error:
                    log.warning("the objects of priority and fairness could not be kept: %s", error)
                await _either(changed, clock)


async def _either(changed: asyncio.Event, clock: TimerClock) -> None:
    """Wait until something has changed, or for a minute."""
    waits = [asyncio.ensure_future(changed.wait()), asyncio.ensure_future(clock.sleep(UPKEEP_S))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _keep(
    producer: Client, kind: str, stored: Sequence[Tree], mandatory: Sequence[Tree], suggested: Sequence[Tree]
) -> None:
    """Create what is missing, put back what was changed, delete what an earlier release had."""
    by_name = {obj["metadata"]["name"]: obj for obj in stored}
    wanted = {obj["metadata"]["name"]: obj for obj in (*mandatory, *suggested)}
    must = {obj["metadata"]["name"] for obj in mandatory}
    for name, tree in wanted.items():
        with suppress(AlreadyExists, Conflict, NotFound):  # somebody else was faster, and an event tells of it
            found = by_name.get(name)
            if found is None:
                await producer.create(tree, kind=kind)
            elif (put_back := renewed(found, tree, mandatory=name in must)) is not None:
                await producer.update(put_back, kind=kind)
    for name, found in by_name.items():
        if name not in wanted and (found["metadata"].get("annotations") or {}).get(builtin.AUTO_UPDATE) == "true":
            with suppress(NotFound):
                await producer.delete(kind, name)


async def _update_conditions(client: Client, clock: TimerClock, levels: set[str], schemas: Sequence[Tree]) -> None:
    """Write the condition of each schema that hasn't the right one."""
    for schema in schemas:
        level = schema["spec"]["priorityLevelConfiguration"]["name"]
        right = dangling(level, exists=level in levels)
        conditions = (schema.get("status") or {}).get("conditions") or []
        if any(condition.get("type") == "Dangling" and right == _said(condition) for condition in conditions):
            continue
        status, reason, message = right
        condition = {"type": "Dangling", "status": status, "lastTransitionTime": rfc3339(clock.now())}
        metadata = {"name": schema["metadata"]["name"]}
        applied: Tree = {"apiVersion": builtin.API_VERSION, "kind": "FlowSchema", "metadata": metadata}
        applied["status"] = {"conditions": [{**condition, "reason": reason, "message": message}]}
        with suppress(NotFound):
            await client.apply(applied, subresource="status", field_manager=_CONSUMER, force=True)


def _said(condition: Mapping[str, Any]) -> DanglingCondition:
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")
