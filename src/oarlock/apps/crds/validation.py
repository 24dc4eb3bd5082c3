"""What a CustomResourceDefinition must be like, as an object that is written.

An update isn't refused for what was wrong before: schemas that are as they were aren't looked at, and a kind of mistake
that the old schemas have already is tolerated in the new ones.
Source: Kubernetes' validation of CustomResourceDefinitions. See also: `version_rules`, for the parts of a version;
`conversion_rules`; `approval`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oarlock.apps.crds.approval import approval_errors
from oarlock.apps.crds.conditions import ESTABLISHED
from oarlock.apps.crds.conversion_rules import conversion_errors
from oarlock.apps.crds.version_rules import COMMON_PLACES, parts_in_common, tolerated_kinds, version_part_errors
from oarlock.meta import names as naming
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.json_trees import Tree
from oarlock.schema.crd_rules import deprecation_errors, names_errors, place_errors

__all__ = ["definition_errors", "status_errors"]


_IMMUTABLE = "field is immutable"
_NO_PRESERVING = (
    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
)
_LATER = (
    "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions until a "
    "storage migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions"
)


def definition_errors(new: Tree, old: Tree | None) -> Iterator[FieldError]:
    """All errors of a definition that is created, or takes the place of `old`."""
    spec = new["spec"]
    if old is None:
        yield from _object_name(new["metadata"].get("name", ""), spec)
    yield from _spec(spec, None if old is None else old["spec"])
    if old is not None:
        yield from _changes(spec, old)
    yield from status_errors(new["status"])
    yield from _stored_versions(new["status"].get("storedVersions") or [], spec.get("versions") or [])
    yield from approval_errors(new, old)
    if spec.get("preserveUnknownFields") and not (old is not None and old["spec"].get("preserveUnknownFields")):
        yield Invalid("spec.preserveUnknownFields", True, _NO_PRESERVING)


def status_errors(status: Tree) -> Iterator[FieldError]:
    """The errors of a status by itself."""
    yield from names_errors(status.get("acceptedNames") or {}, "status.acceptedNames")


def _object_name(name: str, spec: Tree) -> Iterator[FieldError]:
    wanted = f"{spec['names']['plural']}.{spec['group']}"
    if name and name != wanted:
        yield Invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _spec(spec: Tree, old: Tree | None) -> Iterator[FieldError]:
    names = spec["names"]
    yield from place_errors(spec)
    of_versions, in_common = _versions(spec, old)
    yield from of_versions
    for key in ("plural", "singular", "kind", "listKind"):
        if not names.get(key):
            yield Required(f"spec.names.{key}")
    yield from names_errors(names, "spec.names")
    yield from in_common
    yield from conversion_errors(spec.get("conversion") or {}, None if old is None else old.get("conversion"))


def _versions(spec: Tree, old: Tree | None) -> tuple[list[FieldError], list[FieldError]]:
    """The errors of the list of versions, and those of what all versions have in common."""
    versions = spec.get("versions") or []
    common = parts_in_common(versions)
    own = [part for part in COMMON_PLACES if part not in common]
    before = {version["name"]: version for version in (old or {}).get("versions") or ()}
    found: list[FieldError] = []
    if not any(_schema(version) for version in versions) or "schema" not in common:
        missing = [at for at, version in enumerate(versions) if _schema(version) is None]
        found += [Required(f"spec.versions[{at}].schema.openAPIV3Schema") for at in missing]
    for at, version in enumerate(versions):
        path = f"spec.versions[{at}]"
        if complaints := naming.dns1035_label(version["name"]):
            found.append(Invalid(f"{path}.name", version["name"], ",".join(complaints)))
        found += deprecation_errors(version, path)
        found += _of_parts(version, {part: f"{path}.{part}" for part in own}, before)
    names = [version["name"] for version in versions]
    shown = None if spec.get("versions") is None else [_shown(version, common) for version in versions]
    if len(set(names)) < len(names):
        found.append(Invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        found.append(Invalid("spec.versions", shown, "must have exactly one version marked as storage version"))
    if names and names[0] and (complaints := naming.dns1035_label(names[0])):
        found.append(Invalid("spec.version", names[0], ",".join(complaints)))
    in_common = _of_parts(versions[0], {part: COMMON_PLACES[part] for part in common}, before) if versions else []
    return found, in_common


def _of_parts(version: Tree, places: dict[str, str], before: dict[str, Tree]) -> list[FieldError]:
    """The errors of a version's parts, but for those that it had before."""
    old = before.get(version["name"])
    unchanged = () if old is None else [part for part in places if old.get(part) == version.get(part)]
    found = list(version_part_errors(version, places, unchanged))
    if found and before:
        anywhere = {part: part for part in COMMON_PLACES}
        is_tolerated = tolerated_kinds(
            [error for version in before.values() for error in version_part_errors(version, anywhere)]
        )
        found = [error for error in found if not is_tolerated(error)]
    return found


def _schema(version: Tree) -> Any:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _shown(version: Tree, common: frozenset[str]) -> Tree:
    """A version as Kubernetes shows it in errors: in its own words."""
    shown = {
        "Name": version["name"],
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
    }
    for part in COMMON_PLACES:
        shown[part[0].upper() + part[1:]] = None if part in common else version.get(part)
    return shown


def _changes(new: Tree, old: Tree) -> Iterator[FieldError]:
    before = old["spec"]
    conditions = old["status"].get("conditions") or ()
    if any(condition["type"] == ESTABLISHED and condition["status"] == "True" for condition in conditions):
        if new["scope"] != before["scope"]:
            yield Invalid("spec.scope", new["scope"], _IMMUTABLE)
        if new["names"]["kind"] != before["names"]["kind"]:
            yield Invalid("spec.names.kind", new["names"]["kind"], _IMMUTABLE)
    if new["group"] != before["group"]:
        yield Invalid("spec.group", new["group"], _IMMUTABLE)
    if new["names"]["plural"] != before["names"]["plural"]:
        yield Invalid("spec.names.plural", new["names"]["plural"], _IMMUTABLE)


def _stored_versions(stored: list[str], versions: list[Tree]) -> Iterator[FieldError]:
    path = "status.storedVersions"
    if not stored:
        yield Invalid(path, None, "must have at least one stored version")
        return
    for version in versions:
        if version.get("storage") and version["name"] not in stored:
            yield Invalid(path, stored, f"must have the storage version {version['name']}")
    names = {version["name"] for version in versions}
    for at, name in enumerate(stored):
        if name not in names:
            yield Invalid(f"{path}[{at}]", name, _LATER.format(name))
