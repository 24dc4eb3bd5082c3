"""Validates a dict in the shape of a CustomResourceDefinition, with Kubernetes' paths and messages.

`crd_errors` checks the shape of the dict first, and its meaning only if the shape is valid.
Must not know: updates of CRDs, conversion by webhook. See also: `crd_schema_rules` for the schemas.
Source: apiextensions.k8s.io/v1 CustomResourceDefinition validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oarlock.meta import names as naming
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required, TooMany
from oarlock.meta.json_trees import Tree
from oarlock.schema.crd_schema_rules import schema_errors
from oarlock.schema.crd_shape import shape_errors
from oarlock.schema.jsonpath import PathError, compile_path, simple_steps

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "name", "password")
_SELECTABLE = ("string", "integer", "boolean")
_MAX_SELECTABLE = 8
_OWN = "x-oarlock-"
_CHOICES: dict[str, tuple[Any, ...]] = {
    "delete-returns": ("status", "object"),
    "name-rule": ("dns-subdomain", "dns-label", "dns1035-label", "path-segment"),
    "gc-default": ("background", "orphan"),
}


def crd_errors(tree: Any) -> list[FieldError]:
    """All errors of the dict; if its shape is invalid, only errors of its shape."""
    errors = list(shape_errors(tree))
    if errors:
        return errors
    spec = tree["spec"]
    errors += _identity(tree)
    errors += [Required(f"spec.names.{key}") for key in ("plural", "kind") if not spec["names"][key]]
    errors += names_errors(spec["names"], "spec.names")
    errors += _versions(spec)
    for i, version in enumerate(spec["versions"]):
        errors += _version(version, f"spec.versions[{i}]")
    errors += _own_extras(spec)
    return errors


def _identity(tree: Tree) -> Iterator[FieldError]:
    spec = tree["spec"]
    group, plural = spec["group"], spec["names"]["plural"]
    name = (tree.get("metadata") or {}).get("name")
    if name is not None and name != f"{plural}.{group}":
        yield Invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from place_errors(spec)
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield Invalid("spec.preserveUnknownFields", True, text)


def place_errors(spec: Tree) -> Iterator[FieldError]:
    """The errors of the group and of the scope."""
    group = spec["group"]
    if not group:
        yield Required("spec.group")
    elif complaints := naming.dns1123_subdomain(group):
        yield Invalid("spec.group", group, ",".join(complaints))
    elif "." not in group:
        yield Invalid("spec.group", group, "should be a domain with at least one dot")
    if not spec["scope"]:
        yield Required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield NotSupported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))


def names_errors(names: Tree, path: str) -> Iterator[FieldError]:
    """The errors of those names that are given."""
    mixed = "may have mixed case, but should otherwise match: "
    for key, prefix in (("plural", ""), ("singular", ""), ("kind", mixed), ("listKind", mixed)):
        name = names.get(key)
        complaints = naming.dns1035_label(name.lower() if prefix else name) if name else []
        if complaints:
            yield Invalid(f"{path}.{key}", name, prefix + ",".join(complaints))
    for key in ("shortNames", "categories"):
        for i, name in enumerate(names.get(key) or ()):
            if complaints := naming.dns1035_label(name):
                yield Invalid(f"{path}.{key}[{i}]", name, ",".join(complaints))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield Invalid(f"{path}.listKind", names["kind"], "kind and listKind may not be the same")


def _versions(spec: Tree) -> Iterator[FieldError]:
    versions = spec["versions"]
    names = [version["name"] for version in versions]
    for i, name in enumerate(names):
        if complaints := naming.dns1035_label(name):
            yield Invalid(f"spec.versions[{i}].name", name, ",".join(complaints))
    if len(set(names)) < len(names):
        yield Invalid("spec.versions", names, "must contain unique version names")
    if sum(version["storage"] for version in versions) != 1:
        yield Invalid("spec.versions", names, "must have exactly one version marked as storage version")
    hub = spec.get(_OWN + "hub")
    if hub is not None and hub not in names:
        yield NotSupported(f"spec.{_OWN}hub", hub, names)


def _version(version: Tree, path: str) -> Iterator[FieldError]:
    yield from deprecation_errors(version, path)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield Required(f"{path}.schema.openAPIV3Schema")
    else:
        yield from schema_errors(schema, f"{path}.schema.openAPIV3Schema", complete=True)
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from scale_errors(scale, f"{path}.subresources.scale")
    for i, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}.additionalPrinterColumns[{i}]"
        yield from column_errors(column, where)
        yield from _unreadable(column["jsonPath"], f"{where}.JSONPath")
    if schema is not None:
        yield from selectable_errors(version.get("selectableFields") or [], schema, f"{path}.selectableFields")


def deprecation_errors(version: Tree, path: str) -> Iterator[FieldError]:
    """The errors of a version's warning."""
    text, where = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if text is None:
        return
    if not version.get("deprecated"):
        yield Invalid(where, text, "can only be set for deprecated versions")
    if not text.strip():
        yield Invalid(where, text, "must not be an empty string")
    if len(text) > 256:
        yield Invalid(where, text, "must be <= 256 characters in length")
    at = next((at for at, char in enumerate(text) if not char.isprintable()), None)
    if at is not None:
        place = f"non-printable character found at index {len(text[:at].encode())}"
        yield Invalid(where, text, f"must only contain printable UTF-8 characters; {place}")


def column_errors(column: Tree, path: str) -> Iterator[FieldError]:
    """The errors of a printer column. A path that can't be read shows nothing, and is none."""
    one_of = "must be one of " + ",".join(_COLUMN_TYPES)
    if not column["name"]:
        yield Required(f"{path}.name")
    if not column["type"]:
        yield Required(f"{path}.type", one_of)
    elif column["type"] not in _COLUMN_TYPES:
        yield Invalid(f"{path}.type", column["type"], one_of)
    column_format = column.get("format")
    if column_format and column_format not in _COLUMN_FORMATS:
        yield Invalid(f"{path}.format", column_format, "must be one of " + ",".join(_COLUMN_FORMATS))
    yield from _simple_path(column["jsonPath"], f"{path}.JSONPath")


def _unreadable(text: str, path: str) -> Iterator[FieldError]:
    """The error of a path that can't be read, which Kubernetes lets through: its author should know."""
    if text.startswith("."):
        try:
            compile_path(text)
        except PathError as error:
            yield Invalid(path, text, f"{error.why} at column {error.column}")


def _simple_path(text: str, path: str) -> Iterator[FieldError]:
    if not text:
        yield Required(path)
    elif not text.startswith("."):
        yield Invalid(path, text, "must be a simple json path starting with .")


def scale_errors(scale: Tree, path: str) -> Iterator[FieldError]:
    """The errors of a scale subresource."""
    for key, roots, needed in (
        ("specReplicasPath", (".spec.",), True),
        ("statusReplicasPath", (".status.",), True),
        ("labelSelectorPath", (".spec.", ".status."), False),
    ):
        text = scale.get(key) or ""
        if not text and not needed:
            continue
        mistakes = list(_simple_path(text, f"{path}.{key}"))
        yield from mistakes
        if not mistakes and not (text.startswith(roots) and _is_simple(text)):
            under = " or ".join(root.rstrip(".") for root in roots)
            either = "either " if len(roots) > 1 else ""
            yield Invalid(f"{path}.{key}", text, f"should be a json path under {either}{under}")


def _is_simple(text: str) -> bool:
    try:
        return bool(simple_steps(text))
    except PathError:
        return False


def selectable_errors(fields: list[Tree], schema: Tree, path: str) -> Iterator[FieldError]:
    """The errors of selectable fields, for a version with this schema."""
    if len(fields) > _MAX_SELECTABLE:
        yield TooMany(path, len(fields), _MAX_SELECTABLE)
    paths_before: set[str] = set()
    for i, field in enumerate(fields):
        where, text = f"{path}[{i}].jsonPath", field["jsonPath"]
        if not text:
            yield Required(where)
            continue
        yield from _selectable_path(text, schema, where)
        if text in paths_before:
            yield Duplicate(where, text)
        paths_before.add(text)


def _selectable_path(text: str, schema: Tree, where: str) -> Iterator[FieldError]:
    if not text.startswith((".", "[")):
        shown = text.partition(".")[0]
        yield Invalid(where, text, f"is an invalid path: expected [ or . but got: {shown}")
        return
    try:
        steps = simple_steps(text)
    except PathError as error:
        yield Invalid(where, text, f"is an invalid path: {error.why} at column {error.column}")
        return
    if steps[:1] == ("metadata",):
        yield Invalid(where, text, "must not point to fields in metadata")
        return
    leaf = _leaf(schema, steps)
    if not steps and "[" in text:
        yield Invalid(where, text, "is an invalid path: array notation is not allowed")
    elif not steps or leaf is None:
        yield Invalid(where, text, "is an invalid path: does not refer to a valid field")
    elif leaf.get("type") not in _SELECTABLE:
        kinds = "must point to a field of type string, boolean or integer"
        yield Invalid(where, text, f"{kinds}. Enum string fields and strings with formats are allowed.")


def _leaf(schema: Any, steps: tuple[str, ...]) -> Tree | None:
    for step in steps:
        if type(schema) is not dict:
            return None
        schema = (schema.get("properties") or {}).get(step, schema.get("additionalProperties"))
    return schema if type(schema) is dict else None


def _own_extras(spec: Tree) -> Iterator[FieldError]:
    for key, allowed in _CHOICES.items():
        value = spec.get(_OWN + key)
        if value is not None and value not in allowed:
            yield NotSupported(f"spec.{_OWN}{key}", value, allowed)
    ttl = spec.get(_OWN + "ttl-seconds")
    if ttl is not None and ttl <= 0:
        yield Invalid(f"spec.{_OWN}ttl-seconds", ttl, "must be greater than 0")
    extras = {"hub", "typed", "generation", "unconditional-update", "create-on-update", "ttl-seconds", *_CHOICES}
    for key in spec:
        if key.startswith(_OWN) and key.removeprefix(_OWN) not in extras:
            yield Forbidden(f"spec.{key}", "is not known")
