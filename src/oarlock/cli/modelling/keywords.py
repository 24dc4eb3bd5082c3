"""The class keywords for one version of a definition.

Paths that lead nowhere in the schema are told and left out: a class refuses them. See also: ``schema.types.resources``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from oarlock.cli.modelling.layout import Bracketed, Expression, call, literal, text_of
from oarlock.cli.modelling.values import RULES, rule_calls
from oarlock.schema.definition import Column, Schema, VersionDefinition


class _Told(Protocol):
    def use(self, *names: str) -> None: ...
    def tell(self, path: str, what: str) -> None: ...


def version_keywords(
    version: VersionDefinition, schema: Schema, has_docstring: bool, path: str, to: _Told
) -> Iterator[Expression]:
    """The keywords, each as ``name=…``."""
    if version.status:
        if "status" in schema.get("properties", {}):
            yield "status_subresource=True"
        else:
            to.tell(path, "it has /status and no status: a class needs the field")
    yield from _scale(version, schema, path, to)
    selectable = [p for p in version.selectable if not _nowhere(p, schema, f"{path}, selectable field {p}", to)]
    if selectable:
        yield "selectable=", Bracketed("[", [text_of(p) for p in selectable], "]")
    columns = [c for c in version.columns if not _nowhere(c.json_path, schema, f"{path}, column {c.name}", to)]
    if columns:
        to.use("Column")
        yield "columns=", Bracketed("[", [_column(column) for column in columns], "]")
    if version.deprecated:
        yield f"deprecated={text_of(version.deprecation_warning) if version.deprecation_warning else True}"
    if not version.served:
        yield "served=False"
    rules = rule_calls(schema.get(RULES))
    if rules:
        to.use("Rule")
        yield "rules=", Bracketed("[", rules, "]")
    rest = _rest(schema, bool(rules), has_docstring)
    if rest:
        openapi = literal(rest)
        yield ("openapi=", openapi) if isinstance(openapi, Bracketed) else f"openapi={openapi}"


def _scale(version: VersionDefinition, schema: Schema, path: str, to: _Told) -> Iterator[Expression]:
    scale = version.scale
    if scale is None:
        return
    paths = (scale.spec_replicas_path, scale.status_replicas_path, *filter(None, [scale.label_selector_path]))
    lost = [p for p in paths if _nowhere(p, schema, f"{path}, scale {p}", to)]
    if lost:
        return
    to.use("Scale")
    yield "scale=", call("Scale", *map(text_of, paths))


def _column(column: Column) -> Bracketed:
    named: dict[str, Expression] = {}
    if column.type != "string":
        named["type"] = text_of(column.type)
    for key in ("format", "description"):
        if getattr(column, key):
            named[key] = text_of(getattr(column, key))
    if column.priority:
        named["priority"] = str(column.priority)
    return call("Column", text_of(column.name), text_of(column.json_path), **named)


def _nowhere(json_path: str, schema: Schema, path: str, to: _Told) -> bool:
    """Whether a path leads to no field, which is told."""
    if not json_path.startswith("."):
        to.tell(path, f"{json_path!r} is no path from the object's root")
        return True
    if not re.fullmatch(r"(\.[A-Za-z_][\w-]*)+", json_path):
        return False
    here: Any = schema
    steps = json_path[1:].split(".")
    if steps[0] == "metadata":
        return False
    for step in steps:
        properties = here.get("properties")
        if not properties or here.get("x-kubernetes-preserve-unknown-fields"):
            return False
        if step not in properties:
            to.tell(path, f"{json_path!r} leads nowhere at {step!r}")
            return True
        here = properties[step]
    return False


_SAID = ("type", "properties", "required")


def _rest(schema: Schema, rules_are_said: bool, has_docstring: bool) -> Schema:
    """What of the schema of a whole object neither fields nor other keywords say."""
    said = {*_SAID, *([RULES] if rules_are_said else []), *(["description"] if has_docstring else [])}
    rest = {key: value for key, value in schema.items() if key not in said}
    required = list(schema.get("required") or ())
    fields = {*schema.get("properties", {})} - {"apiVersion", "kind", "metadata"}
    if any(name not in fields for name in required):
        rest["required"] = required
    return rest
