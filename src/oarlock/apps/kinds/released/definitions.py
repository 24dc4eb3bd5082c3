"""`released_definitions`: the `ResourceDefinition`s of the kinds of one release.

Must not know: how they are served. See also: `facts`; ``apps.workloads.serving``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oarlock.apps.kinds.released.facts import KindFacts, PartFacts, type_name
from oarlock.apps.kinds.released.release import Release
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.definition import Names, ResourceDefinition, Subresource, VersionDefinition

__all__ = ["released_definitions"]


def released_definitions(release: Release, kinds: Iterable[KindFacts]) -> list[ResourceDefinition]:
    """A definition for each kind that the release has. Facts of one kind in several versions make one definition.

    The version that is listed first is the hub.
    """
    versions: dict[tuple[str, str], list[KindFacts]] = {}
    for facts in kinds:
        if release.has(type_name(facts.group, facts.version, facts.kind)):
            versions.setdefault((facts.group, facts.plural), []).append(facts)
    return [_definition(release, some) for some in versions.values()]


def _definition(release: Release, versions: Sequence[KindFacts]) -> ResourceDefinition:
    facts = versions[0]
    return ResourceDefinition(
        group=facts.group,
        names=Names(facts.plural, facts.kind, short_names=facts.short_names, categories=facts.categories),
        scope="Namespaced" if facts.namespaced else "Cluster",
        versions=tuple(_version(release, one) for one in versions),
        hub=facts.version,
        stored_as=facts.version,
        generation=facts.generation,
        unconditional_update=facts.unconditional_update,
        create_on_update=facts.create_on_update,
        delete_returns=facts.delete_returns,
        name_rule=facts.name_rule,
        gc_default=facts.gc_default,
        released=release.version,
    )


def _version(release: Release, facts: KindFacts) -> VersionDefinition:
    return VersionDefinition(
        facts.version,
        release.object_schema(type_name(facts.group, facts.version, facts.kind)),
        deprecated=bool(facts.deprecation_warning),
        deprecation_warning=facts.deprecation_warning,
        columns=facts.columns,
        selectable=facts.selectable,
        status=facts.status,
        scale=facts.scale,
        subresources=tuple(_subresource(release, facts, one) for one in facts.parts),
    )


def _subresource(release: Release, facts: KindFacts, part: PartFacts) -> Subresource:
    kind, body = GroupVersionKind(facts.group, facts.version, part.kind or facts.kind), {}
    if part.body_kind:
        kind = GroupVersionKind(*part.body_kind.split("/"))
        body = release.object_schema(type_name(kind.group, kind.version, kind.kind))
    shared = bool(part.fields)  # the object itself may set them as well, where its checks let it
    return Subresource(part.name, part.verbs, kind, request_schema=body, fields=part.fields, shared=shared)
