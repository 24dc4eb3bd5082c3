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
from oarlock.schema.crd_schema_rules import schema_errors
from oarlock.schema.crd_shape import shape_errors
from oarlock.schema.jsonpath import PathError, compile_path, simple_steps

__all__ = ["crd_errors"]

Tree = dict[str, Any]

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
    errors += _names(spec["names"])
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
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield Invalid("spec.preserveUnknownFields", True, text)


def _names(names: Tree) -> Iterator[FieldError]:
    for key in ("plural", "kind"):
        if not names[key]:
            yield Required(f"spec.names.{key}")
    mixed = "may have mixed case, but should otherwise match: "
    for key, prefix in (("plural", ""), ("singular", ""), ("kind", mixed), ("listKind", mixed)):
        name = names.get(key)
        complaints = naming.dns1035_label(name.lower() if prefix else name) if name else []
        if complaints:
            yield Invalid(f"spec.names.{key}", name, prefix + ",".join(complaints))
    for key in ("shortNames", "categories"):
        for i, name in enumerate(names.get(key) or ()):
            if complaints := naming.dns1035_label(name):
                yield Invalid(f"spec.names.{key}[{i}]", name, ",".join(complaints))
    if names["kind"] and names["kind"] == names.get("listKind"):
        yield Invalid("spec.names.listKind", names["kind"], "kind and listKind may not be the same")


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
    warning = version.get("deprecationWarning")
    if warning is not None:
        yield from _warning(warning, bool(version.get("deprecated")), f"{path}.deprecationWarning")
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield Required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    else:
        yield from schema_errors(schema, f"{path}.schema.openAPIV3Schema")
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _scale(scale, f"{path}.subresources.scale")
    for i, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{i}]")
    if schema is not None:
        yield from _selectable(version.get("selectableFields") or [], schema, f"{path}.selectableFields")


def _warning(text: str, deprecated: bool, path: str) -> Iterator[FieldError]:
    if not deprecated:
        yield Invalid(path, text, "can only be set for deprecated versions")
    if len(text) > 256:
        yield Invalid(path, text, "must be <= 256 characters in length")
    if not text.strip():
        yield Invalid(path, text, "must not be empty")
    for char in text:
        if not char.isprintable():
            yield Invalid(path, text, "must only contain printable UTF-8 characters")
            return


def _column(column: Tree, path: str) -> Iterator[FieldError]:
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
    yield from _path(column["jsonPath"], f"{path}.jsonPath")


def _path(text: str, path: str) -> Iterator[FieldError]:
    if not text:
        yield Required(path)
    elif not text.startswith("."):
        yield Invalid(path, text, "must be a simple json path starting with .")
    else:
        try:
            compile_path(text)
        except PathError as error:
            yield Invalid(path, text, f"{error.why} at column {error.column}")


def _scale(scale: Tree, path: str) -> Iterator[FieldError]:
    for key, roots, needed in (
        ("specReplicasPath", (".spec.",), True),
        ("statusReplicasPath", (".status.",), True),
        ("labelSelectorPath", (".spec.", ".status."), False),
    ):
        text = scale.get(key) or ""
        if not text and not needed:
            continue
        mistakes = list(_path(text, f"{path}.{key}"))
        yield from mistakes
        if not mistakes and (not text.startswith(roots) or not simple_steps(text)):
            under = " or ".join(root.rstrip(".") for root in roots)
            yield Invalid(f"{path}.{key}", text, f"should be a json path under {under}")


def _selectable(fields: list[Tree], schema: Tree, path: str) -> Iterator[FieldError]:
    if len(fields) > _MAX_SELECTABLE:
        yield TooMany(path, len(fields), _MAX_SELECTABLE)
    paths_before: set[tuple[str, ...]] = set()
    for i, field in enumerate(fields):
        where, text = f"{path}[{i}].jsonPath", field["jsonPath"]
        mistakes = list(_path(text, where))
        yield from mistakes
        if mistakes:
            continue
        steps = simple_steps(text)
        if steps[:1] == ("metadata",):
            yield Invalid(where, text, "must not point to fields in metadata")
            continue
        leaf = _leaf(schema, steps)
        if not steps or leaf is None:
            yield Invalid(where, text, "is an invalid path: does not refer to a valid field")
        elif leaf.get("type") not in _SELECTABLE:
            kinds = ", ".join(_SELECTABLE)
            yield Invalid(where, text, f"must point to a field of type {kinds}, but points to {leaf.get('type', '')!r}")
        if steps in paths_before:
            yield Duplicate(where, text)
        paths_before.add(steps)


def _leaf(schema: Any, steps: tuple[str, ...]) -> Tree | None:
    for step in steps:
        if type(schema) is not dict:
            return None
        schema = (schema.get("properties") or {}).get(step)
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
