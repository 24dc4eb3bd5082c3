"""Describes an APIServer as lines for a terminal, with warnings for doubtful declarations (``oarlock check``).

Errors are raised when a class is declared or a server made; the warnings are for what is allowed but probably not
meant.
Must not know: where the server comes from. See also: `commands`.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.meta.built_in import BUILT_IN_GROUPS
from oarlock.registry.served import Served
from oarlock.schema.definition import ResourceDefinition, VersionDefinition
from oarlock.server.app import APIServer

__all__ = ["describe", "warnings_about"]


def describe(server: APIServer) -> Iterator[str]:
    """One line for each group, and one for each kind in it, its versions and what is special about each."""
    group = None
    for served in sorted(
        server.catalog.resources, key=lambda resource: (resource.definition.group, resource.definition.names.plural)
    ):
        definition = served.definition
        if definition.group != group:
            group = definition.group
            yield group or "the core group"
        yield f"  {_kind(served)}"
        for version in definition.versions:
            yield f"    {_version(definition, version, stored=served.virtual is None)}"


def _kind(served: Served) -> str:
    names = served.definition.names
    shown_names = ", ".join((names.plural, *names.short_names))
    attributes = [served.definition.scope.lower(), *(f"in {category}" for category in names.categories)]
    if served.virtual is not None:
        attributes.append("virtual: " + " ".join(served.verbs()))
    return f"{names.kind} ({shown_names}): {', '.join(attributes)}"


def _version(definition: ResourceDefinition, version: VersionDefinition, *, stored: bool) -> str:
    facts = [
        *(["hub"] if version.name == definition.hub and len(definition.versions) > 1 else []),
        *(["stored"] if stored and version.name == definition.stored_as else []),
        *(["deprecated"] if version.deprecated else []),
        *([] if version.served else ["not served"]),
        *(f"/{name}" for name, there in (("status", version.status), ("scale", version.scale is not None)) if there),
        *(f"/{subresource.name}" for subresource in version.subresources),
    ]
    return f"{version.name}: {', '.join(facts)}" if facts else version.name


def warnings_about(server: APIServer) -> Iterator[str]:
    """Warnings for what is allowed but probably not meant, each with what to write instead. Of a user's kinds only."""
    for served in server.catalog.resources:
        definition = served.definition
        if definition.group in BUILT_IN_GROUPS:
            continue
        for version in definition.versions:
            where = f"{definition.names.kind} {definition.api_version(version.name)}"
            for warning in _version_warnings(definition, version, stored=served.virtual is None):
                yield f"{where}: {warning}"
        if served.virtual is not None and "list" not in served.verbs():
            yield f"{definition.names.kind}: kubectl get can't list it: write a method list"
    if server.authorizer is None and not server.default_authorization:
        yield "everybody with a credential may do everything: give APIServer an authorizer"


def _version_warnings(definition: ResourceDefinition, version: VersionDefinition, *, stored: bool) -> Iterator[str]:
    if not version.schema.get("description"):
        yield "it has no description: write a docstring, which kubectl explain shows"
    if version.deprecated and stored and definition.stored_as == version.name and len(definition.versions) > 1:
        yield "it is deprecated, and objects are stored in it: store them in another version with stored_as"
    if stored and "status" in version.schema.get("properties", {}) and not version.status:
        yield "whoever may write it may write its status: say status_subresource=True"
