"""`CompiledVersion`: one version of a resource with its schema compiled to functions on trees.

They change trees in place, which nobody else may hold, in the order of a write: `type_errors`,
`prune`, `normalize`, `default`, and `validate` after the hooks. A schema is checked when its definition is loaded.
Must not know: requests, storage, hooks. See also: `structural` for the nodes, then the module of each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required, TooLong, TooMany, TypeInvalid
from oarlock.meta.go import gobase64
from oarlock.meta.json_trees import Tree, copy_json
from oarlock.meta.quantities import canonical_in_thousandths, canonical_quantity, is_quantity
from oarlock.meta.times import is_rfc3339, is_rfc3339_micro
from oarlock.schema.cel.gate import CompiledRules, rules_of
from oarlock.schema.definition import ResourceDefinition, VersionDefinition
from oarlock.schema.jsonpath import Getter, PathError, compile_path
from oarlock.schema.passes.defaulting import compile_default, compile_drop_nulls
from oarlock.schema.passes.normalizing import compile_lacks, compile_normalize, compile_whole_numbers
from oarlock.schema.passes.pruning import MAX_REPORTED, compile_clean, prune
from oarlock.schema.structural.merge_keys import INITIALIZED_META, OBJECT_META
from oarlock.schema.structural.nodes import MISSING, Node, SchemaError, parse
from oarlock.schema.structural.patterns import structural_errors
from oarlock.schema.validation.findings import MAX_ERRORS, Check, Enough, ValidationFindings
from oarlock.schema.validation.objectmeta import compile_embedded
from oarlock.schema.validation.ratcheting import compile_lists, still_wrong
from oarlock.schema.validation.typing_errors import bounds_of, compile_fits, type_errors
from oarlock.schema.validation.values import compile_check

__all__ = ["NOT_CHECKED", "CompiledVersion", "SchemaError", "compile_version"]
_BLOCKING = (NotSupported, Required, TooLong, TooMany, TypeInvalid)
NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)

SMALL_NODES = 200
"""A schema with no more nodes is compiled in some milliseconds, which the event loop can spare."""

_TEXT = Node(type="string", omit_empty=True)


def compile_version(definition: ResourceDefinition, version: str) -> CompiledVersion:
    """Check one version, and compile it if it is large. KeyError for a version that isn't there.

    SchemaError for a schema that isn't structural, and for a CEL rule that can't be run.
    """
    version_definition = definition.version(version)
    if definition.released:
        return _released_version(definition, version_definition)
    node = parse(version_definition.schema)
    for error in structural_errors(node, complete=definition.typed):
        raise SchemaError(error.path, error.body)
    cel, mistakes = rules_of(version_definition.schema, node)
    for error in mistakes:
        raise SchemaError(error.path, error.detail)
    try:
        selectable = tuple(compile_path(path) for path in version_definition.selectable)
    except PathError as error:
        raise SchemaError("selectable", str(error)) from error
    compiled = CompiledVersion(
        version_definition.schema,
        typed=definition.typed,
        selectable=selectable,
        cel=cel,
        metadata=INITIALIZED_META if definition.initializers else OBJECT_META,
    )
    compiled.has_bare_status = definition.typed and version_definition.status
    compiled.large = _count(node) > SMALL_NODES
    if compiled.large:
        compiled.compile()
    return compiled


def _released_version(definition: ResourceDefinition, version: VersionDefinition) -> CompiledVersion:
    """A version whose schema needs no check, and is compiled when it is first used: most of many kinds never are.

    Objects are checked against its types only; the rules of their kind check the rest.
    """
    selectable = tuple(map(compile_path, version.selectable))
    made = CompiledVersion(version.schema, typed=definition.typed, selectable=selectable, checked=False)
    made.waits = True
    made.has_bare_status = version.status
    return made


class _Reading:
    """What a schema is compiled to for objects that are read from the store."""

    __slots__ = ("clean", "default", "embedded", "node", "normalize", "rules")

    def __init__(self, node: Node, typed: bool, metadata: Node) -> None:
        # metadata doesn't have what this schema says of it, but the same for every kind
        self.node = whole = _with_metadata(node, metadata)
        self.rules = rules = _without_metadata(node)
        self.clean = compile_clean(whole)
        self.embedded = compile_embedded(rules)
        self.normalize = _normalizers(whole, rules, typed)
        self.default = compile_default(rules)


class _Writing:
    """What a schema is compiled to for objects that clients write."""

    __slots__ = ("check", "fits", "lists", "shape", "untouched")

    def __init__(self, reading: _Reading, typed: bool, checked: bool) -> None:
        whole, rules = reading.node, reading.rules
        self.shape = whole if typed else Node(type="object", properties={"metadata": whole.properties["metadata"]})
        self.fits = compile_fits(self.shape)
        self.untouched = _compile_untouched(whole)
        self.check = compile_check(rules) if checked else None
        self.lists = compile_lists(rules) if checked else None


class CompiledVersion:
    """The operations of a version's schema on trees. Made by `compile_version`, which has checked the schema.

    A small schema is compiled when it is first used, and its checks when an object is first written: most of many
    definitions never are, and compiled they take ten times their size. A `large` one is compiled at once, beside the
    event loop, which it would block. One that `waits` is to be compiled there before it is first used.
    """

    __slots__ = (
        "_cel",
        "_checked",
        "_lacks",
        "_metadata",
        "_reading",
        "_schema",
        "_typed",
        "_writing",
        "has_bare_status",
        "large",
        "selectable",
        "waits",
    )

    def __init__(
        self,
        schema: Tree,
        *,
        typed: bool,
        selectable: tuple[Getter, ...] = (),
        cel: CompiledRules | None = None,
        checked: bool = True,
        metadata: Node = OBJECT_META,
    ) -> None:
        self._schema = schema
        self._metadata = metadata
        self._typed = typed
        self._checked = checked
        self._cel = cel
        self._reading: _Reading | None = None
        self._writing: _Writing | None = None
        self._lacks: Callable[[Any], bool] | Literal["not compiled"] | None = "not compiled"
        self.large = False
        self.waits = False
        self.has_bare_status = False
        """Whether there is no status at all before it is written, though its schema may have a default."""
        self.selectable = selectable

    def compile(self) -> None:
        """Compile the schema now. Safe in any thread, and more than once."""
        self._compile_writing()
        self.waits = False

    def _compile_reading(self) -> _Reading:
        reading = self._reading = _Reading(parse(self._schema), self._typed, self._metadata)
        return reading

    def _compile_writing(self) -> _Writing:
        reading = self._reading or self._compile_reading()
        writing = self._writing = _Writing(reading, self._typed, self._checked)
        return writing

    def untouched(self, tree: Tree) -> bool:
        """Whether `type_errors`, `prune` and `normalize` would leave the tree as it is. False may also mean unknown."""
        untouched = (self._writing or self._compile_writing()).untouched
        return untouched is not None and untouched(tree)

    def type_errors(self, tree: Tree) -> list[FieldError]:
        """Every value of a wrong JSON type, the first `findings.MAX_ERRORS` of them.

        If there are any, other violations are included. For a custom resource only metadata is checked: `validate`
        reports the rest, with all other violations.
        """
        writing = self._writing or self._compile_writing()
        reading = self._reading or self._compile_reading()
        errors: list[FieldError] = []
        if writing.fits is not None and not writing.fits(tree):
            errors.extend(islice(type_errors(tree, writing.shape), MAX_ERRORS))
        elif reading.embedded is not None:
            errors.extend(islice(reading.embedded.wrong_types(tree), MAX_ERRORS))
        return errors + self._not_already_reported(tree, errors) if errors and self._typed else errors

    def _not_already_reported(self, tree: Tree, type_errors: list[FieldError]) -> list[FieldError]:
        """Other violations of the schema in a tree with some values of a wrong type."""
        rest = copy_json(tree)
        self.normalize(rest)
        self.default(rest)
        places = tuple(error.path for error in type_errors)
        return [error for error in self._violations(rest, None) if not _is_at(error, places)][:MAX_ERRORS]

    def prune(self, tree: Tree) -> list[str]:
        """Remove undeclared fields; returns the first `MAX_REPORTED` paths, in the form of strict decoding errors."""
        reading = self._reading or self._compile_reading()
        unknown: list[str] = []
        if reading.clean is not None and not reading.clean(tree):
            unknown = prune(tree, reading.node)
            if not self._typed:
                unknown.sort()
        if reading.embedded is not None:
            unknown = (unknown + reading.embedded.prune(tree))[:MAX_REPORTED]
        return unknown

    def normalize(self, tree: Tree) -> None:
        """Remove values that mean "absent": null where it isn't allowed, and zero values of omitempty fields.

        Integers of a custom resource that were written as floats become integers.
        """
        for step in (self._reading or self._compile_reading()).normalize:
            step(tree)

    def default(self, tree: Tree) -> None:
        """Fill in the defaults of the schema, also nested ones. Each is a copy."""
        default = (self._reading or self._compile_reading()).default
        if default is not None:
            default(tree)

    def fill_stored(self, tree: Tree) -> bool:
        """Fill in the defaults that a stored object lacks; whether it lacked any.

        One with a value of a wrong type stays as it is.
        """
        lacks = self._compile_lacks() if self._lacks == "not compiled" else self._lacks
        if lacks is None or not lacks(tree) or self.type_errors(tree):
            return False
        was_bare = self.has_bare_status and "status" not in tree
        self.default(tree)
        if was_bare:
            tree.pop("status", None)
        return True

    def _compile_lacks(self) -> Callable[[Any], bool] | None:
        rules = _without_metadata(parse(self._schema))
        if self.has_bare_status and "status" in rules.properties:
            status = replace(rules.properties["status"], default=MISSING)
            rules = replace(rules, properties={**rules.properties, "status": status})
        self._lacks = compile_lacks(rules)
        return self._lacks

    def validate(
        self, tree: Tree, old: Tree | None = None, forgiven: list[FieldError] | None = None
    ) -> list[FieldError]:
        """Every violation of the schema, the first `findings.MAX_ERRORS`; `objectmeta` validates metadata.

        With `old`, the object that an update replaces, violations in unchanged values are ignored (ratcheting); those
        of rules are added to `forgiven`.
        CEL rules run last, and only if no field is missing, or has a wrong type or size, or isn't in its enum.
        """
        errors = self._violations(tree, old)
        cel = self._cel
        if cel is None:
            return errors
        if errors and any(isinstance(error, _BLOCKING) for error in errors):
            return [*errors, Invalid("<nil>", None, NOT_CHECKED)]
        return errors + cel.validate(tree, old, forgiven)

    def _violations(self, tree: Tree, old: Tree | None) -> list[FieldError]:
        writing = self._writing or self._compile_writing()
        reading = self._reading or self._compile_reading()
        findings = ValidationFindings()
        repeated = findings if writing.lists is None else ValidationFindings()
        try:
            if writing.check is not None:
                writing.check(tree, None, findings)
            if writing.lists is not None:
                writing.lists(tree, None, repeated)
            if reading.embedded is not None:
                reading.embedded.validate(tree, findings)
        except Enough:
            pass
        if not findings.errors and not repeated.errors:
            return []
        errors = findings.errors if old is None else still_wrong(findings, reading.rules, tree, old)
        if repeated is not findings and repeated.errors and (old is None or not _found_by(writing.lists, old)):
            errors = errors + repeated.errors
        return errors[:MAX_ERRORS]

    def selectable_values(self, tree: Tree) -> tuple[str, ...]:
        """The values of the selectable fields as in field selectors; ``""`` for an absent one."""
        return tuple([_label(get(tree)) for get in self.selectable])


def _found_by(check: Check | None, tree: Tree) -> bool:
    findings = ValidationFindings()
    try:
        if check is not None:
            check(tree, None, findings)
    except Enough:
        pass
    return bool(findings)


def _count(node: Node) -> int:
    """The number of nodes of a schema."""
    rules = node.constraints
    inside = [*node.properties.values(), *rules.all_of, *rules.any_of, *rules.one_of]
    inside += [child for child in (node.items, node.additional, rules.not_) if isinstance(child, Node)]
    return 1 + sum(map(_count, inside))


def _is_at(error: FieldError, places: tuple[str, ...]) -> bool:
    """Whether the finding is about a value of a wrong type, or about a list or map that contains one."""
    return isinstance(error, TypeInvalid) or error.path == "<nil>" or error.path in places


def _label(values: list[Any]) -> str:
    if not values:
        return ""
    value = values[0]
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if type(value) is int else ""


def _with_metadata(node: Node, metadata: Node) -> Node:
    fixed = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": metadata}
    return replace(node, type="object", properties={**node.properties, **fixed}, embedded=False)


def _without_metadata(node: Node) -> Node:
    """The schema without that of metadata, except constraints on the name."""
    metadata = node.properties.get("metadata")
    children = {key: child for key, child in node.properties.items() if key != "metadata"}
    if metadata is not None and metadata.properties:
        children["metadata"] = metadata
    return replace(node, properties=children, embedded=False)


def _normalizers(whole: Node, rules: Node, typed: bool) -> tuple[Callable[[Any], None], ...]:
    if typed:
        steps = [compile_normalize(whole)]
    else:
        metadata = compile_normalize(Node(type="object", properties={"metadata": whole.properties["metadata"]}))
        steps = [metadata, compile_drop_nulls(rules), compile_whole_numbers(rules)]
    return tuple(step for step in steps if step is not None)


# Whether a tree needs no change: one walk that tells whether typing, pruning and normalizing would change or report
# anything. For nearly every body they wouldn't, so it replaces three. False means nothing: then the steps are run,
# whose rules these are.

Untouched = Callable[[Any], bool]

_PLAIN = {"string": str, "boolean": bool}


class _Unsure(Exception):
    """The schema has something that this walk can't decide."""


def _compile_untouched(node: Node) -> Untouched | None:
    """A function that returns whether a tree needs no change; None for a schema that it doesn't support."""
    try:
        return _untouched(node)
    except _Unsure:
        return None


def _untouched(node: Node) -> Untouched:
    if node.embedded:
        raise _Unsure
    anything = node.type in ("", "object") and not node.properties and node.additional is None and node.items is None
    if node.preserve and anything:
        return _any_object if node.type == "object" else _anything_but_null
    if node.quantity:
        canonical = canonical_in_thousandths if node.in_thousandths else canonical_quantity
        return lambda value: type(value) is str and canonical(value) == value and is_quantity(value)
    if node.decimal:
        return lambda value: type(value) is str
    if node.int_or_string:
        fits = compile_fits(node) or _anything_but_null
        return lambda value: value is not None and fits(value)
    match node.type:
        case "array" if node.items is not None:
            return _list_of(_untouched(node.items))
        case "integer":
            low, high = bounds_of(node)
            return lambda value: type(value) is int and low <= value <= high
        case "number":
            return lambda value: type(value) is float or type(value) is int
        case "string" | "boolean":
            return _scalar(node)
        case "object" if not node.preserve:
            return _map(node) if isinstance(node.additional, Node) else _object(node)
    raise _Unsure


def _any_object(value: Any) -> bool:
    return type(value) is dict


def _anything_but_null(value: Any) -> bool:
    return value is not None


def _scalar(node: Node) -> Untouched:
    kind, fits = _PLAIN[node.type], compile_fits(node)
    if node.format == "date-time":
        is_time = is_rfc3339_micro if node.micro_time else is_rfc3339
        return lambda value: type(value) is str and is_time(value)
    if node.format == "byte":
        return lambda value: type(value) is str and gobase64.is_canonical(value)
    if _is_plain(node) or fits is None:
        return lambda value: type(value) is kind
    return lambda value: type(value) is kind and fits(value)


def _is_plain(node: Node) -> bool:
    """Whether the Python type alone decides."""
    return node.type in _PLAIN and node.format not in ("date-time", "byte") and not node.int_or_string


def _list_of(item_is: Untouched) -> Untouched:
    def untouched_list(value: Any) -> bool:
        if type(value) is not list:
            return False
        for item in value:  # noqa: SIM110  (a generator costs more than the loop)
            if not item_is(item):
                return False
        return True

    return untouched_list


def _map(node: Node) -> Untouched:
    if node.properties or not isinstance(node.additional, Node):
        raise _Unsure
    item_is, kind = _untouched(node.additional), _PLAIN.get(node.additional.type)
    if not _is_plain(node.additional):
        kind = None

    def untouched_map(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for item in value.values():  # noqa: SIM110  (as above)
            if type(item) is not kind and not item_is(item):
                return False
        return True

    return untouched_map


def _object(node: Node) -> Untouched:
    if node.additional is not None:
        raise _Unsure
    plain = {
        key: _PLAIN[child.type]
        for key, child in node.properties.items()
        if _is_plain(child) and (child.type == "string" or not child.omit_empty)
    }
    others = {key: _untouched(child) for key, child in node.properties.items() if key not in plain}
    not_empty = frozenset(key for key, child in node.properties.items() if child.omit_empty)
    nulls = frozenset(key for key, child in node.properties.items() if child.nullable and not child.omit_empty)

    def untouched_object(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for key, item in value.items():
            if type(item) is plain.get(key):
                if item or key not in not_empty:
                    continue
                return False
            item_is = others.get(key)
            if item is None and key in nulls:
                continue
            if item_is is None or (not item and key in not_empty) or not item_is(item):
                return False
        return True

    return untouched_object
