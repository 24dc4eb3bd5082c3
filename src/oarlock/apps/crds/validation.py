"""What a CustomResourceDefinition must be like, as an object that is written.

An update isn't refused for what was wrong before: schemas that are as they were aren't looked at, and a kind of mistake
that the old schemas have already is tolerated in the new ones.
Source: Kubernetes' validation of CustomResourceDefinitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from oarlock.apps.controlplane.collections.webhook_client_errors import webhook_service_errors, webhook_url_errors
from oarlock.apps.crds.conditions import APPROVAL, ESTABLISHED, ConditionValue
from oarlock.meta import names as naming
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.net.url import UrlError, parse_url
from oarlock.schema.crd_rules import (
    column_errors,
    deprecation_errors,
    names_errors,
    place_errors,
    scale_errors,
    selectable_errors,
)
from oarlock.schema.crd_schema_rules import schema_errors, status_errors_of_root

ANNOTATION = "api-approved.kubernetes.io"

_PROTECTED = (".k8s.io", ".kubernetes.io")
_WHERE = "see https://github.com/kubernetes/enhancements/pull/1111"
_MISSING, _INVALID = "MissingAnnotation", "InvalidAnnotation"


def approval_condition(group: str, annotations: Mapping[str, str]) -> ConditionValue | None:
    """What the definition's condition about its approval says; None in a group that isn't Kubernetes'."""
    if group not in ("k8s.io", "kubernetes.io") and not group.endswith(_PROTECTED):
        return None
    text = annotations.get(ANNOTATION, "")
    if not text:
        why = f'protected groups must have approval annotation "{ANNOTATION}", {_WHERE}'
        return ConditionValue(APPROVAL, "False", _MISSING, why)
    if text.startswith("unapproved"):
        return ConditionValue(APPROVAL, "False", "UnapprovedAnnotation", f"not approved: {quote(text)}")
    if _is_url(text):
        return ConditionValue(APPROVAL, "True", "ApprovedAnnotation", f"approved in {text}")
    how = 'with either a URL or a reason starting with "unapproved"'
    why = f'protected groups must have approval annotation "{ANNOTATION}" {how}, {_WHERE}'
    return ConditionValue(APPROVAL, "False", _INVALID, why)


def approval_errors(new: dict[str, Any], old: dict[str, Any] | None) -> Iterator[FieldError]:
    """The errors of a definition that needs approval and tells none. What was so before is tolerated."""
    condition = _condition(new)
    if condition is None or condition.reason not in (_MISSING, _INVALID):
        return
    before = None if old is None else _condition(old)
    if before is not None and before.reason == condition.reason:
        return
    path = f"metadata.annotations[{ANNOTATION}]"
    if condition.reason == _MISSING:
        yield Required(path, condition.message)
    else:
        yield Invalid(path, new["metadata"]["annotations"][ANNOTATION], condition.message)


def _condition(tree: dict[str, Any]) -> ConditionValue | None:
    return approval_condition(tree["spec"]["group"], tree["metadata"].get("annotations") or {})


def _is_url(text: str) -> bool:
    try:
        url = parse_url(text)
    except UrlError:
        return False
    return bool(url.scheme and url.host)


REVIEW_VERSIONS = ("v1", "v1beta1")
"""The versions of ConversionReview that the server knows."""

_CONFIG = "spec.conversion.webhookClientConfig"
_REVIEWS = "spec.conversion.conversionReviewVersions"
_NOT_SET = "should not be set when strategy is not set to Webhook"


def conversion_errors(new: Tree, old: Tree | None) -> Iterator[FieldError]:
    """The errors of a conversion that takes the place of `old`."""
    strategy = new.get("strategy")
    if not strategy:
        yield Required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield NotSupported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    webhook = new.get("webhook") or {}
    config, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if strategy == "Webhook":
        if config is None:
            yield Required(_CONFIG, "required when strategy is set to Webhook")
        else:
            yield from _client_errors(config)
        before = ((old or {}).get("webhook") or {}).get("conversionReviewVersions") or []
        yield from _review_errors(reviews or [], tolerant=bool(before) and not _known(before))
        return
    if config is not None:
        yield Forbidden(_CONFIG, _NOT_SET)
    if reviews:
        yield Forbidden(_REVIEWS, _NOT_SET)


def _client_errors(config: Tree) -> Iterator[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield Required(_CONFIG, "exactly one of url or service is required")
    elif url is not None:
        yield from webhook_url_errors(f"{_CONFIG}.url", url)
    elif service is not None:
        namespace, name = service.get("namespace") or "", service.get("name") or ""
        port, path = service.get("port", 443), service.get("path") or ""
        yield from webhook_service_errors(f"{_CONFIG}.service", namespace, name, port, path)


def _review_errors(reviews: list[str], *, tolerant: bool) -> Iterator[FieldError]:
    if not reviews:
        yield Required(_REVIEWS)
        return
    seen: set[str] = set()
    for at, version in enumerate(reviews):
        if complaints := naming.dns1035_label(version):
            yield Invalid(f"{_REVIEWS}[{at}]", version, ",".join(complaints))
        elif version in seen:
            yield Invalid(f"{_REVIEWS}[{at}]", version, "duplicate version")
        seen.add(version)
    if not tolerant and not _known(reviews):
        yield Invalid(_REVIEWS, reviews, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


def _known(reviews: list[str]) -> bool:
    return any(version in REVIEW_VERSIONS for version in reviews)


COMMON_PLACES: Mapping[str, str] = {
    "schema": "spec.validation",
    "subresources": "spec.subresources",
    "additionalPrinterColumns": "spec.additionalPrinterColumns",
    "selectableFields": "spec.selectableFields",
}
"""What a version may have, and where it is said to be when all versions have the same."""

_OLD_MISTAKES: tuple[Callable[[FieldError], bool], ...] = (
    lambda error: "structural" in error.detail or error.path.endswith((".type", ".items")),
    lambda error: error.detail.startswith("must not have unknown fields"),
    lambda error: "x-kubernetes-list-type=set" in error.detail,
    lambda error: "x-kubernetes-list-map-keys" in error.detail or "list-type is set" in error.detail,
    lambda error: "x-kubernetes-validations" in error.path or "x-kubernetes-validations" in error.detail,
)
"""The kinds of mistakes that later releases of Kubernetes refused, and tolerate where they are."""


def parts_in_common(versions: list[Tree]) -> frozenset[str]:
    """The parts that all versions have alike."""
    if not versions:
        return frozenset()
    first, *others = versions
    return frozenset(part for part in COMMON_PLACES if all(other.get(part) == first.get(part) for other in others))


def version_part_errors(
    version: Tree, places: Mapping[str, str], unchanged: Collection[str] = ()
) -> Iterator[FieldError]:
    """The errors of those parts of a version that have a place; `unchanged` parts are as they were."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    below = version.get("subresources") or {}
    if "schema" in places and schema is not None and not {"schema", "subresources"} <= {*unchanged}:
        where = f"{places['schema']}.openAPIV3Schema"
        if below.get("status") is not None:
            yield from status_errors_of_root(schema, where)
        if "schema" not in unchanged:
            yield from schema_errors(schema, where)
    if "subresources" in places and below.get("scale") is not None:
        yield from scale_errors(below["scale"], f"{places['subresources']}.scale")
    if "additionalPrinterColumns" in places:
        for at, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from column_errors(column, f"{places['additionalPrinterColumns']}[{at}]")
    fields = version.get("selectableFields") or []
    if "selectableFields" in places and fields and schema is not None:
        yield from selectable_errors(fields, schema, places["selectableFields"])


def tolerated_kinds(errors: Collection[FieldError]) -> Callable[[FieldError], bool]:
    """Says whether an error is of a kind that is among `errors`, those of the object before."""
    kinds = [is_kind for is_kind in _OLD_MISTAKES if any(map(is_kind, errors))]
    return lambda error: any(is_kind(error) for is_kind in kinds)


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
