"""Regular expressions of schemas: RE2, in linear time for any pattern and text.

`CompiledPattern` caches short texts that matched, because objects are written repeatedly with the
same values and a call of the library costs more than a lookup. See also: `validation`.
Source: OpenAPI v3 ``pattern``; RE2 is the engine of Kubernetes' own checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import re2

from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, Required
from oarlock.schema.structural.nodes import MISSING, Constraints, Node

_REMEMBERED = 256
_SHORT = 64
_SHORT_SOURCE = 128

_GO_WORDS = (
    ("no argument for repetition operator: ", "missing argument to repetition operator: "),
    ("bad repetition operator: ", "invalid nested repetition operator: "),
    ("invalid repetition size: ", "invalid repeat count: "),
    ("missing ]: ", "missing closing ]: "),
    ("missing ): ", "missing closing ): "),
    ("unexpected ): ", "unexpected ): "),
    ("trailing \\", "trailing backslash at end of expression"),
    ("invalid perl operator: ", "invalid or unsupported Perl syntax: "),
)


class PatternError(ValueError):
    """The pattern is invalid; the message is that of Go."""


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    return options


def _compiled(source: str) -> Any:
    return re2.compile(source.encode(), _options())


@lru_cache(256)
def _compiled_short(source: str) -> Any:
    """One for all fields that have the same pattern, in whatever definition."""
    return _compiled(source)


class CompiledPattern:
    """A compiled pattern. PatternError when it can't be."""

    __slots__ = ("_matched", "_search", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self._matched: set[str] = set()
        try:
            self._search = (_compiled_short(source) if len(source) <= _SHORT_SOURCE else _compiled(source)).search
        except re2.error as error:
            raise PatternError(_worded(error)) from error
        except UnicodeEncodeError as error:
            raise PatternError("error parsing regexp: invalid UTF-8") from error

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        results = self._matched
        if text in results:
            return True
        if self._search(text.encode("utf-8", "surrogatepass")) is None:
            return False
        if len(text) <= _SHORT:
            if len(results) >= _REMEMBERED:
                results.clear()
            results.add(text)
        return True


def _worded(error: re2.error) -> str:
    message = error.args[0] if error.args else ""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    for ours, theirs in _GO_WORDS:
        if text.startswith(ours):
            rest = text[len(ours) :]
            return f"error parsing regexp: {theirs}" + (f"`{rest}`" if theirs.endswith(": ") else "")
    what, colon, where = text.partition(": ")
    return f"error parsing regexp: {what}: `{where}`" if colon else f"error parsing regexp: {text}"


_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def structural_errors(node: Node, path: str = "", *, complete: bool = True) -> list[FieldError]:
    """All violations, sorted by text.

    With `complete`, fields in branches must be declared outside of them too, which Kubernetes doesn't ask any more.
    """
    errors = [*_invariants(node, "root", path), *(_completeness(node, path) if complete else ())]
    return sorted(errors, key=lambda error: error.message)


def _join(path: str, *steps: str) -> str:
    return ".".join(step for step in (path, *steps) if step)


def _invariants(node: Node, level: str, path: str) -> Iterator[FieldError]:
    if node.type == "array" and node.items is None:
        yield Required(_join(path, "items"), "must be specified")
    if node.items is not None:
        yield from _invariants(node.items, "item", _join(path, "items"))
    for key, child in node.properties.items():
        yield from _invariants(child, "field", _join(path, f"properties[{key}]"))
    if node.additional is not None:
        if level == "root":
            yield Forbidden(_join(path, "additionalProperties"), "must not be used at the root")
        if isinstance(node.additional, Node):
            yield from _invariants(node.additional, "field", _join(path, "additionalProperties"))
    if node.int_or_string:
        for flag, key in ((node.preserve, "preserve-unknown-fields"), (node.embedded, "embedded-resource")):
            if flag:
                yield Invalid(
                    _join(path, f"x-kubernetes-{key}"), True, "must be false if x-kubernetes-int-or-string is true"
                )
    rules = node.constraints
    first_all_of = bool(rules.all_of) and _is_int_or_string(rules.all_of[0].constraints)
    yield from _value_rules(rules, path, _is_int_or_string(rules), first_all_of)
    yield from _type_rules(node, level, path)
    yield from _metadata_rules(node, level, path)


def _type_rules(node: Node, level: str, path: str) -> Iterator[FieldError]:
    where = _join(path, "type")
    if node.embedded and node.type != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield Invalid(where, node.type, text) if node.type else Required(where, text)
    elif not node.type and not node.int_or_string and not node.preserve:
        yield Required(where, _EMPTY_TYPE[level])
    if node.embedded and node.additional is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        yield Forbidden(_join(path, "additionalProperties"), text)
    if level == "root" and node.type not in ("", "object"):
        yield Invalid(where, node.type, "must be object at the root")
    if node.embedded and not node.preserve and not node.properties:
        without = "is true without x-kubernetes-preserve-unknown-fields"
        yield Required(_join(path, "properties"), f"must not be empty if x-kubernetes-embedded-resource {without}")


def _metadata_rules(node: Node, level: str, path: str) -> Iterator[FieldError]:
    if level != "root" and not node.embedded:
        return
    for key in ("kind", "apiVersion"):
        child = node.properties.get(key)
        if child is not None and child.type != "string":
            yield Invalid(_join(path, f"properties[{key}]", "type"), child.type, "must be string")
    metadata = node.properties.get("metadata")
    if metadata is None:
        return
    where = _join(path, "properties[metadata]")
    if metadata.type != "object":
        yield Invalid(_join(where, "type"), metadata.type, "must be object")
    if level == "root" and not _names_only(metadata):
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield Forbidden(where, text)


def _names_only(metadata: Node) -> bool:
    plain = (metadata.items, metadata.additional, metadata.format, metadata.list_type, metadata.map_type)
    texts = (metadata.title, metadata.description)
    flags = metadata.preserve or metadata.embedded or metadata.int_or_string or metadata.nullable or metadata.has_rules
    return (
        not any((*plain, *texts))
        and not flags
        and metadata.properties.keys() <= {"name", "generateName"}
        and not _says(metadata.constraints)
    )


def _says(rules: Constraints) -> bool:
    """Whether there is any constraint."""
    empty = Constraints()
    return any(getattr(rules, name) != getattr(empty, name) for name in Constraints.__slots__)


def _is_int_or_string(rules: Constraints) -> bool:
    """Whether it is exactly ``anyOf: [{type: integer}, {type: string}]``: only here may a branch have types."""
    branches = rules.any_of
    if len(branches) != 2 or [branch.type for branch in branches] != ["integer", "string"]:
        return False
    return all(not _says(branch.constraints) and _only_type(branch) for branch in branches)


def _only_type(node: Node) -> bool:
    return not (
        node.properties or node.items or node.additional is not None or node.nullable or node.preserve or node.format
    )


def _value_rules(rules: Constraints, path: str, skip_any_of: bool, skip_first_all_of: bool) -> Iterator[FieldError]:
    if not skip_any_of:
        for i, branch in enumerate(rules.any_of):
            yield from _nested(branch, _join(path, f"anyOf[{i}]"))
    for i, branch in enumerate(rules.all_of):
        yield from _nested(branch, _join(path, f"allOf[{i}]"), skip_any_of=skip_first_all_of and i == 0)
    for i, branch in enumerate(rules.one_of):
        yield from _nested(branch, _join(path, f"oneOf[{i}]"))
    if rules.not_ is not None:
        yield from _nested(rules.not_, _join(path, "not"))
    if rules.pattern:
        try:
            CompiledPattern(rules.pattern)
        except PatternError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield Invalid(_join(path, "pattern"), rules.pattern, text)


def _nested(node: Node, path: str, skip_any_of: bool = False) -> Iterator[FieldError]:
    """Keywords that a branch may not have, because they belong outside of it."""
    yield from _value_rules(node.constraints, path, skip_any_of, False)
    if node.items is not None:
        yield from _nested(node.items, _join(path, "items"))
    for key, child in node.properties.items():
        yield from _nested(child, _join(path, f"properties[{key}]"))
    forbidden = (
        ("type", bool(node.type), "must be empty to be structural"),
        ("additionalProperties", node.additional is not None, "must be undefined to be structural"),
        ("default", node.default is not MISSING, "must be undefined to be structural"),
        ("title", bool(node.title), "must be empty to be structural"),
        ("description", bool(node.description), "must be empty to be structural"),
        ("nullable", node.nullable, "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", node.preserve, "must be false to be structural"),
        ("x-kubernetes-embedded-resource", node.embedded, "must be false to be structural"),
        ("x-kubernetes-int-or-string", node.int_or_string, "must be false to be structural"),
        ("x-kubernetes-list-map-keys", bool(node.list_keys), "must be empty to be structural"),
        ("x-kubernetes-list-type", bool(node.list_type), "must be undefined to be structural"),
        ("x-kubernetes-map-type", bool(node.map_type), "must be undefined to be structural"),
        ("x-kubernetes-validations", node.has_rules, "must be empty to be structural"),
    )
    for key, is_set, text in forbidden:
        if is_set:
            yield Forbidden(_join(path, key), text)
    if "metadata" in node.properties:
        yield Forbidden(_join(path, "properties[metadata]"), "must not be specified in a nested context")


def _completeness(node: Node, path: str) -> Iterator[FieldError]:
    """Every field in a branch must be declared outside of branches too."""
    yield from _branches_complete(node.constraints, node, path, path)
    if node.items is not None:
        yield from _completeness(node.items, _join(path, "items"))
    for key, child in node.properties.items():
        yield from _completeness(child, _join(path, f"properties[{key}]"))
    if isinstance(node.additional, Node):
        yield from _completeness(node.additional, _join(path, "additionalProperties"))


def _branches_complete(rules: Constraints, node: Node, structure: str, values: str) -> Iterator[FieldError]:
    for keyword, branches in (("allOf", rules.all_of), ("anyOf", rules.any_of), ("oneOf", rules.one_of)):
        for i, branch in enumerate(branches):
            yield from _branch_complete(branch, node, structure, _join(values, f"{keyword}[{i}]"))
    if rules.not_ is not None:
        yield from _branch_complete(rules.not_, node, structure, _join(values, "not"))


def _branch_complete(branch: Node, node: Node, structure: str, values: str) -> Iterator[FieldError]:
    yield from _branches_complete(branch.constraints, node, structure, values)
    if branch.items is not None:
        where, place = _join(structure, "items"), _join(values, "items")
        if node.items is None:
            yield Required(where, f"because it is defined in {place}")
        else:
            yield from _branch_complete(branch.items, node.items, where, place)
    for key, child in branch.properties.items():
        where, place = _join(structure, f"properties[{key}]"), _join(values, f"properties[{key}]")
        if key not in node.properties:
            yield Required(where, f"because it is defined in {place}")
        else:
            yield from _branch_complete(child, node.properties[key], where, place)
    if isinstance(branch.additional, Node) and not isinstance(node.additional, Node):
        place = _join(values, "additionalProperties")
        yield Required(_join(structure, "additionalProperties"), f"because it is defined in {place}")
