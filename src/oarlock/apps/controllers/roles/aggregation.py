"""`RoleAggregation`: the controller of cluster roles whose rules are those of others, chosen by their labels.

Source: Kubernetes' clusterroleaggregation controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from oarlock.apps.kinds.meta import LabelSelector
from oarlock.apps.kinds.rbac import GROUP, ClusterRole, PolicyRule
from oarlock.codec import json
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.watched import Watched
from oarlock.meta.labels import Selector, SelectorError, from_label_selector
from oarlock.registry.workers import aside
from oarlock.schema.types.views import builtins_of

__all__ = ["RoleAggregation"]

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
