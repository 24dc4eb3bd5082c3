"""`released_resources`: the kinds of a release as a server serves them, with the code that belongs to each.

Must not know: which parts a control plane has. See also: ``apps.kinds.released``, the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from oarlock.apps.kinds.released.core import CORE
from oarlock.apps.kinds.released.definitions import released_definitions
from oarlock.apps.kinds.released.infrastructure import INFRASTRUCTURE
from oarlock.apps.kinds.released.network import NETWORK
from oarlock.apps.kinds.released.release import newest_release
from oarlock.apps.kinds.released.work import WORK
from oarlock.apps.workloads.autoscaling import AutoscalerConverter
from oarlock.apps.workloads.checking import CHECKS
from oarlock.apps.workloads.defaulting import SETTLES
from oarlock.apps.workloads.preparing import PREPARES
from oarlock.apps.workloads.printing import ROWS
from oarlock.apps.workloads.trees import Check, Settle, Tree, at
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.registry.conversion import NoConversion
from oarlock.registry.served import AnyHook, Hooks, Served
from oarlock.schema.definition import ResourceDefinition

__all__ = ["KINDS", "newest_definitions", "released_resources"]

KINDS: Final = (*CORE, *WORK, *NETWORK, *INFRASTRUCTURE)
"""Every kind there are facts about."""

SubresourceHooks = Mapping[tuple[str, str], Mapping[str, AnyHook]]


@cache
def newest_definitions() -> Sequence[ResourceDefinition]:
    """All kinds of the newest release that is installed, read once in a process. Raises NoReleases."""
    return tuple(released_definitions(newest_release(), KINDS))


def released_resources(definitions: Sequence[ResourceDefinition], subresources: SubresourceHooks) -> list[Served]:
    """The kinds of a release. `subresources` are the hooks of a resource's, by group and plural.

    What has no hook and is no part of the object isn't served.
    """
    return [_served(definition, subresources) for definition in definitions]


def _served(definition: ResourceDefinition, subresources: SubresourceHooks) -> Served:
    key = definition.group, definition.names.plural
    settle, complete, check, row = SETTLES.get(key), PREPARES.get(key), CHECKS.get(key), ROWS.get(key)
    versions = [version.name for version in definition.versions]
    hooks = Hooks(
        default={version: _default(settle) for version in versions} if settle is not None else {},
        prepare=_prepare(complete) if complete is not None else None,
        validate=_validate(check) if check is not None else None,
        grace_s=_pods_grace_s if key == ("", "pods") else None,
        rows=dict.fromkeys(versions, row) if row is not None else {},
        subresources=subresources.get(key, {}),
        threadsafe=True,
    )
    return Served(definition, AutoscalerConverter() if len(versions) > 1 else NoConversion(), hooks)


def _default(settle: Settle) -> Callable[[Tree, Context], Tree]:
    def default(tree: Tree, ctx: Context) -> Tree:
        settle(tree)
        return tree

    return default


def _prepare(complete: Settle) -> Callable[[Tree, Tree | None, Context], Tree]:
    def prepare(new: Tree, old: Tree | None, ctx: Context) -> Tree:
        if old is None:
            complete(new)
        return new

    return prepare


def _validate(check: Check) -> Check:
    def validate(new: Tree, old: Tree | None, ctx: Context) -> Iterable[FieldError]:
        return [*check(new, old, ctx)]

    return validate


def _pods_grace_s(tree: Tree, asked: int | None) -> int:
    """A pod that no node runs needs no time; one that has ended neither."""
    if not at(tree, "spec.nodeName") or at(tree, "status.phase") in ("Succeeded", "Failed"):
        return 0
    seconds = at(tree, "spec.terminationGracePeriodSeconds", 30) if asked is None else asked
    return 1 if seconds < 0 else int(seconds)
