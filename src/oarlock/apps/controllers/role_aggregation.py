"""`RoleAggregation`: the controller of cluster roles whose rules are those of others, chosen by their labels.

Source: Kubernetes' clusterroleaggregation controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from oarlock.apps.controlplane.bootstrap.bootstrap_roles import (
    bindings,
    cluster_roles,
    namespaced_bindings,
    namespaced_roles,
    roles_of,
)
from oarlock.apps.kinds.meta import LabelSelector
from oarlock.apps.kinds.rbac import GROUP, ClusterRole, PolicyRule
from oarlock.client.client import Client
from oarlock.codec import json
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.watched import Watched
from oarlock.meta import errors
from oarlock.meta.json_trees import Tree
from oarlock.meta.labels import Selector, SelectorError, from_label_selector
from oarlock.policy.authz.roles import read_rules, uncovered
from oarlock.registry.workers import aside
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.types.views import builtins_of

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
AT_ONCE = 32


async def create_default_roles(client: Client) -> None:
    """Create what is missing, and complete what is incomplete."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def bring(wanted: Tree, stored: Tree | None) -> None:
        async with limit:
            await _bring(client, wanted, stored)

    for wanted in (cluster_roles(), bindings(), namespaced_roles(), namespaced_bindings()):
        kind = _kind(wanted[0])
        stored = {_place(role): role async for role in client.list(kind)}
        async with asyncio.TaskGroup() as group:
            for tree in wanted:
                found = stored.get(_place(tree))
                if found is None or reconciled(tree, found) is not None:
                    group.create_task(bring(tree, found))


async def create_declared_roles(client: Client, definitions: Iterable[ResourceDefinition]) -> None:
    """Let ``view``, ``edit`` and ``admin`` do what declared resources say (``rbac=…``), and nothing that they said."""
    for wanted in roles_of(definitions):
        name = wanted["metadata"]["name"]
        try:
            stored = await client.get(_kind(wanted), name)
        except errors.NotFound:
            if wanted["rules"]:
                await _bring(client, wanted, None)
        else:
            if stored.get("rules") != wanted["rules"]:
                await client.update({**stored, "rules": wanted["rules"]})


async def _bring(client: Client, wanted: Tree, stored: Tree | None) -> None:
    namespace, name = _place(wanted)
    for _ in range(8):  # others may write at the same time
        try:
            if stored is None:
                await client.create(wanted, namespace=namespace)
                return
            changed = reconciled(wanted, stored)
            if changed is None:
                return
            if changed.get("roleRef") != stored.get("roleRef"):
                await client.delete(_kind(wanted), name, namespace=namespace)
                stored = None
                continue
            await client.update(changed)
            return
        except (errors.AlreadyExists, errors.Conflict, errors.NotFound):
            try:
                stored = await client.get(_kind(wanted), name, namespace=namespace)
            except errors.NotFound:
                stored = None


def reconciled(wanted: Tree, stored: Tree) -> Tree | None:
    """What `stored` must become to have all that is wanted; None if it has, or isn't to be touched."""
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(AUTOUPDATE, "true") != "true":
        return None
    made = {**stored, "metadata": {**stored["metadata"]}}  # what is below is replaced, never changed
    for name in ("labels", "annotations"):
        made["metadata"][name] = {**wanted["metadata"][name], **(made["metadata"].get(name) or {})}
    if "aggregationRule" in wanted:
        given = (made.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        missing = [selector for selector in wanted["aggregationRule"]["clusterRoleSelectors"] if selector not in given]
        made["aggregationRule"] = {"clusterRoleSelectors": [*given, *missing]}
    elif "rules" in wanted:
        given = made.get("rules") or []
        missing = [rule for rule in wanted["rules"] if rule not in given]
        held = read_rules(given) if missing else ()
        made["rules"] = [*given, *(rule for rule in missing if uncovered(held, read_rules([rule])))] or None
    if "subjects" in wanted:
        given = made.get("subjects") or []
        made["subjects"] = [*given, *(subject for subject in wanted["subjects"] if subject not in given)]
        made["roleRef"] = wanted["roleRef"]
    return made if made != stored else None


def _kind(tree: Tree) -> str:
    return f"{GROUP}/v1/{tree['kind']}"


def _place(tree: Tree) -> tuple[str, str]:
    return tree["metadata"].get("namespace", ""), tree["metadata"]["name"]


FIELD_MANAGER = "clusterrole-aggregation-controller"


def _aggregates(old: ClusterRole | None, new: ClusterRole | None) -> bool:
    return any(role is not None and role.aggregation_rule is not None for role in (old, new))


def _is_part(old: ClusterRole | None, new: ClusterRole | None) -> bool:
    return any(role is not None and role.metadata.labels for role in (old, new))


class RoleAggregation(
    Controller[ClusterRole],
    name="clusterrole-aggregation",
    when=_aggregates,
    watches=[Watched(ClusterRole, to="aggregating", when=_is_part)],
):
    """Keeps the rules of aggregated roles the union of those that their selectors choose."""

    def aggregating(self, part: ClusterRole) -> list[ObjectKey]:
        """The roles that may have rules of `part`: all that aggregate."""
        return [ObjectKey("", role.metadata.name) for role in self.informer if role.aggregation_rule is not None]

    async def reconcile(self, key: ObjectKey) -> None:
        role = self.informer.get(key.name)
        if role is None or role.aggregation_rule is None:
            return
        rules = await aside(_union, self._parts(role), role.rules or ())
        if rules is None:
            return
        tree: dict[str, Any] = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": key.name},
            **({"rules": rules} if rules else {}),
        }
        await self.client.apply(tree, field_manager=FIELD_MANAGER, force=True)

    def _parts(self, role: ClusterRole) -> list[ClusterRole]:
        """The roles that each selector chooses, by name."""
        everyone = sorted(self.informer, key=lambda role: role.metadata.name)
        return [
            part
            for selector in _selectors(role)
            for part in everyone
            if part.metadata.name != role.metadata.name and selector.matches(part.metadata.labels)
        ]


def _union(parts: list[ClusterRole], before: Sequence[PolicyRule]) -> list[dict[str, Any]] | None:
    """The rules of all parts, each once; None if they are those of `before`."""
    rules: dict[bytes, dict[str, Any]] = {}
    for part in parts:
        for tree in map(builtins_of, part.rules or ()):
            rules.setdefault(json.encode(tree), tree)
    found = [*rules.values()]
    return None if found == [builtins_of(rule) for rule in before] else found


def _selectors(role: ClusterRole) -> Iterator[Selector]:
    assert role.aggregation_rule is not None
    chosen: LabelSelector
    for chosen in role.aggregation_rule.cluster_role_selectors:
        try:
            yield from_label_selector(builtins_of(chosen))
        except SelectorError:
            continue  # it was stored by other means, and chooses nothing
