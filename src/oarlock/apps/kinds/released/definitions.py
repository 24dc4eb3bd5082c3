"""`released_definitions`: the `ResourceDefinition`s of the kinds of one release.

Must not know: how they are served. See also: ``kinds.declaration``; ``kinds.serving``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oarlock.apps.kinds.declaration import KindDeclaration, SubresourceDeclaration
from oarlock.apps.kinds.released.facts import type_name
from oarlock.apps.kinds.released.release import Release
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.definition import Names, ResourceDefinition, Subresource, VersionDefinition


def released_definitions(release: Release, kinds: Iterable[KindDeclaration]) -> list[ResourceDefinition]:
    """A definition for each kind that the release has, in those of its versions that the release has."""
    made = []
    for kind in kinds:
        versions = [name for name in (kind.version, *kind.other_versions) if _has(release, kind, name)]
        if versions:
            made.append(_definition(release, kind, versions))
    return made


def _has(release: Release, kind: KindDeclaration, version: str) -> bool:
    return release.has(type_name(kind.group, version, kind.kind))


def _definition(release: Release, kind: KindDeclaration, versions: Sequence[str]) -> ResourceDefinition:
    return ResourceDefinition(
        group=kind.group,
        names=Names(kind.plural, kind.kind, short_names=kind.short_names, categories=kind.categories),
        scope="Namespaced" if kind.namespaced else "Cluster",
        versions=tuple(_version(release, kind, name) for name in versions),
        hub=versions[0],
        stored_as=versions[0],
        generation=kind.generation,
        unconditional_update=kind.unconditional_update,
        create_on_update=kind.create_on_update,
        delete_returns=kind.delete_returns,
        name_rule=kind.name_rule,
        gc_default=kind.gc_default,
        repeats_metadata_errors=True,
        released=release.version,
    )


def _version(release: Release, kind: KindDeclaration, name: str) -> VersionDefinition:
    return VersionDefinition(
        name,
        release.object_schema(type_name(kind.group, name, kind.kind)),
        deprecated=bool(kind.deprecation_warning),
        deprecation_warning=kind.deprecation_warning,
        columns=kind.columns,
        selectable=kind.selectable,
        status=kind.status,
        status_metadata=kind.status_metadata if kind.status else (),
        status_at_creation=kind.status_at_creation,
        scale=kind.scale,
        subresources=tuple(_subresource(release, kind, name, part) for part in kind.parts),
    )


def _subresource(release: Release, kind: KindDeclaration, version: str, part: SubresourceDeclaration) -> Subresource:
    served, body = GroupVersionKind(kind.group, version, part.kind or kind.kind), {}
    if part.body_kind:
        served = GroupVersionKind(*part.body_kind.split("/"))
        body = release.object_schema(type_name(served.group, served.version, served.kind))
    shared = bool(part.fields)  # the object itself may set them as well, where its checks let it
    return Subresource(
        part.name,
        part.verbs,
        served,
        request_schema=body,
        fields=part.fields,
        shared=shared,
        counts=part.counts,
        older=part.older,
        proxies=part.proxies,
        connects=part.connects,
        produces=part.produces,
        parameters=part.parameters,
    )
