"""`released_resources`: the kinds of a release as a server serves them, each with the code of its declaration.

Must not know: which parts a control plane has. See also: `declaration`; `released`, the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from typing import Final

from oarlock.apps.kinds import (
    apps,
    autoscaling,
    batch,
    core,
    discovery,
    networking,
    node,
    policy,
    resource,
    scheduling,
    storage,
)
from oarlock.apps.kinds.common.trees import Settle, TreeCheck
from oarlock.apps.kinds.common.values import check_finalizers
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.released.release import newest_release, released_definitions
from oarlock.meta.context import Context
from oarlock.meta.errors import MOST_CAUSES
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.registry.served import AnyHook, Hooks, Reserve, Served
from oarlock.schema.definition import ResourceDefinition

_GROUPS = (core, apps, autoscaling, batch, policy, networking, discovery, storage, scheduling, node, resource)

KINDS: Final[Sequence[KindDeclaration]] = tuple(kind for group in _GROUPS for kind in group.KINDS)
"""Every kind that is declared by data."""

SubresourceHooks = Mapping[tuple[str, str], Mapping[str, AnyHook]]
Reserves = Mapping[tuple[str, str], Reserve]


@cache
def newest_definitions() -> Sequence[ResourceDefinition]:
    """All kinds of the newest release that is installed, read once in a process. Raises NoReleases."""
    return tuple(released_definitions(newest_release(), KINDS))


def released_resources(
    definitions: Sequence[ResourceDefinition],
    subresources: SubresourceHooks,
    reserves: Reserves,
) -> list[Served]:
    """The kinds of a release. By group and plural, `subresources` are the hooks of these, `reserves` what objects take.

    What has no hook and is no part of the object isn't served.
    """
    kinds = {(kind.group, kind.plural): kind for kind in KINDS}
    return [
        _served(definition, kinds[definition.group, definition.names.plural], subresources, reserves)
        for definition in definitions
    ]


def _served(
    definition: ResourceDefinition,
    kind: KindDeclaration,
    subresources: SubresourceHooks,
    reserves: Reserves,
) -> Served:
    versions = [version.name for version in definition.versions]
    hooks = Hooks(
        default={version: _default(kind.default) for version in versions} if kind.default is not None else {},
        prepare=_prepare(kind),
        reserve=reserves.get((kind.group, kind.plural)),
        validate=_validate(kind),
        grace_s=kind.grace_s,
        rows=dict.fromkeys(versions, kind.row) if kind.row is not None else {},
        subresources=subresources.get((kind.group, kind.plural), {}),
        threadsafe=True,
    )
    return Served(definition, kind.converter(), hooks)


def _default(settle: Settle) -> Callable[[Tree, Context], Tree]:
    def default(tree: Tree, ctx: Context) -> Tree:
        settle(tree)
        return tree

    return default


def _prepare(kind: KindDeclaration) -> Callable[[Tree, Tree | None, Context], Tree] | None:
    begin, complete, update = kind.prepare, kind.complete, kind.update
    if begin is None and complete is None and update is None:
        return None

    def prepare(new: Tree, old: Tree | None, ctx: Context) -> Tree:
        if old is None:
            if begin is not None:
                begin(new)
        elif update is not None:
            update(new, old, ctx)
        if complete is not None:
            complete(new)
        return new

    return prepare


def _validate(kind: KindDeclaration) -> TreeCheck | None:
    check, check_status = kind.validate, kind.validate_status
    if check is None and check_status is None:
        return None

    def validate(new: Tree, old: Tree | None, ctx: Context) -> Iterable[FieldError]:
        if old is not None and ctx.target.subresource == "status":
            return [] if check_status is None else _first(check_status(new, old, ctx))
        if check is None:
            return []
        mark = ctx.notes.mark()
        found = _first(chain(check_finalizers(new["metadata"]), check(new, old, ctx)))
        if found:
            ctx.notes.rewind(mark)  # what is refused is not warned of
        return found

    return validate


def _first(errors: Iterable[FieldError]) -> list[FieldError]:
    """The first errors, one more than are reported. The rest isn't computed."""
    return [*islice(errors, MOST_CAUSES + 1)]
