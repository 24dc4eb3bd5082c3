"""What a page says of a kind, whatever it is written in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oarlock.cli.publishing.examples import Examples
from oarlock.cli.publishing.reference import FieldRow, VersionChanges, changes_of, fields_of_version, rules_of_version
from oarlock.registry.served import Served
from oarlock.schema.definition import ResourceDefinition, VersionDefinition


class VersionReference:
    """One version of a kind."""

    def __init__(self, definition: ResourceDefinition, version: VersionDefinition, examples: Examples) -> None:
        self.definition = version
        self.name = version.name
        self.api_version = definition.api_version(version.name)
        self.description: str = version.schema.get("description", "")
        self.fields: Sequence[FieldRow] = fields_of_version(version)
        self.rules = rules_of_version(version)
        self.examples = examples.of(definition, version)
        self.facts = [*_facts(definition, version)]


def _facts(definition: ResourceDefinition, version: VersionDefinition) -> Iterator[str]:
    if len(definition.versions) > 1 and version.name == definition.stored_as:
        yield "stored"
    if version.deprecated:
        yield version.deprecation_warning or "deprecated"
    if version.selectable:
        yield f"field selectors: {', '.join(version.selectable)}"


class KindReference:
    """A kind, its versions with the preferred one first."""

    def __init__(self, served: Served, examples: Examples) -> None:
        self.served = served
        self.definition = served.definition
        self.name = self.definition.names.kind
        self.versions = [
            VersionReference(self.definition, version, examples) for version in self.definition.served_versions()
        ]
        self.changes: Sequence[VersionChanges] = changes_of(served)

    @property
    def file(self) -> str:
        return f"{self.name.lower()}.{self.definition.group or 'core'}.html"

    @property
    def summary(self) -> str:
        """The first sentence of what its preferred version says of itself."""
        text = self.versions[0].description if self.versions else ""
        return " ".join(text.split("\n\n")[0].split())


def facts_of(kind: KindReference) -> Sequence[str]:
    """What is the same in all versions."""
    definition = kind.definition
    names = [definition.names.plural, *definition.names.short_names]
    return [
        definition.scope.lower(),
        f"kubectl get {', '.join(names)}",
        *(f"in {category}" for category in definition.names.categories),
    ]
