"""Compiles the rules of a schema, and validates objects by them.

`compile_rules` reads ``x-kubernetes-validations`` at every level of a schema and refuses invalid rules: a
syntax or type error, an invalid path, an unbounded cost. `RuleSet.validate` walks an object. In
an update, violations by unchanged values are ignored (ratcheting), unless the rule uses the old value.
Must not know: definitions, requests. See also: `expression`, one of them; `estimate`, for the cost.
Source: KEP-2876, KEP-4008; validation of CustomResourceDefinitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.schema.cel.cost_estimate import estimate
from oarlock.schema.cel.declared import Decl, declare
from oarlock.schema.cel.expression import (
    CALL_LIMIT,
    GONE,
    OBJECT_BUDGET,
    Budget,
    Checked,
    CompiledRule,
    DeclaredVariable,
    check_text,
    mentions,
    variables_at,
)
from oarlock.schema.cel.prices import MAX_REQUEST, bound_word, max_elements, min_serialized
from oarlock.schema.cel.problems import CelError, CompileError
from oarlock.schema.cel.syntax.ast import Expr
from oarlock.schema.structural.nodes import Node
from oarlock.schema.validation.findings import MapKey, Where, render
from oarlock.schema.validation.ratcheting import TYPE_META, Likeness


class FieldPathError(ValueError):
    """The path is malformed or isn't in the schema; the message is that of Kubernetes."""


_token = re.compile(r"'(?:[^\\']|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"'}
_escape = re.compile(r"\\(.)", re.DOTALL)
_NOWHERE = "does not refer to a valid field"


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise FieldPathError("invalid string literal: invalid syntax")
        return _ESCAPES[match[1]]

    return _escape.sub(one, text)


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {token}")
    return _unescaped(token[1:-1])


def normalized(path: str, node: Node) -> str:
    """The path as field errors show it: ``a.b.c``, ``labels[app]``. FieldPathError when it isn't in the schema."""
    tokens = iter(_token.findall(path))
    result = ""
    here: Node | None = node
    for token in tokens:
        if token not in (".", "["):
            raise FieldPathError(f"expected [ or . but got: {token}")
        name = next(tokens, None)
        if name is None:
            raise FieldPathError("unexpected end of JSON path")
        if token == "[":
            name = _quoted(name)
        result, here = _step(result, here, name)
        if token == "[":
            closing = next(tokens, None)
            if closing is None:
                raise FieldPathError("unexpected end of JSON path")
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
    return result


def _step(path: str, here: Node | None, name: str) -> tuple[str, Node]:
    if here is not None and here.properties:
        if name not in here.properties:
            raise FieldPathError(_NOWHERE)
        return (f"{path}.{name}" if path else name), here.properties[name]
    if here is None or not isinstance(here.additional, Node):
        raise FieldPathError(_NOWHERE)
    return f"{path}[{name}]", here.additional


EXPRESSION_LIMIT = 10_000_000
"""What one rule may cost at most for the largest object its schema allows, as far as that can be said before."""

SCHEMA_LIMIT = 100_000_000
"""What all rules of a schema may cost at most."""

MAX_ERRORS = 1000
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


@dataclass(slots=True, eq=False)
class _Level:
    """The rules of one level of a schema, and its child levels that have rules."""

    rules: tuple[CompiledRule, ...] = ()
    fields: dict[str, _Level] = field(default_factory=dict)
    values: _Level | None = None
    items: _Level | None = None
    keys: tuple[str, ...] = ()
    root: bool = False
    node: Node | None = None

    def __bool__(self) -> bool:
        return bool(self.rules or self.fields or self.values or self.items)


@dataclass(frozen=True, slots=True)
class _Nearest:
    """The nearest enclosing value with an old counterpart. Compared only when a rule is violated."""

    new: Any
    old: Any
    node: Node | None = None

    def unchanged(self, likeness: Likeness) -> bool:
        return self.old is not GONE and likeness.alike(self.new, self.old, self.node)


class RuleSet:
    """All rules of a schema. Made by `compile_rules`; immutable."""

    __slots__ = ("_level",)

    def __init__(self, level: _Level) -> None:
        self._level = level

    def validate(self, tree: Any, old: Any = None, forgiven: list[FieldError] | None = None) -> list[FieldError]:
        """The violated rules of an object; with `old`, of an update. None means no old object.

        Violations by unchanged values are added to `forgiven`.
        """
        walk = self._walked(tree, old, Budget(OBJECT_BUDGET, CALL_LIMIT), None)
        if forgiven is not None:
            forgiven += walk.forgiven
        return walk.found

    def spend(self, tree: Any, old: Any, budget: Budget, *, at: Where = None) -> list[FieldError]:
        """Like `validate`, with a budget of the caller's."""
        return self._walked(tree, old, budget, at).found

    def _walked(self, tree: Any, old: Any, budget: Budget, at: Where) -> _RuleWalk:
        walk = _RuleWalk(budget)
        was = GONE if old is None else old
        walk.visit(self._level, tree, was, _Nearest(tree, was, self._level.node), at)
        return walk


class _RuleWalk:
    """The validation of one object. Stops when the budget is exhausted."""

    __slots__ = ("_likeness", "budget", "forgiven", "found")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._likeness = Likeness()
        self.found: list[FieldError] = []
        self.forgiven: list[FieldError] = []

    def visit(self, level: _Level, value: Any, old: Any, nearest: _Nearest, where: Where) -> None:
        if value is None or self.budget.exhausted or len(self.found) >= MAX_ERRORS:
            return
        if old is not GONE:
            nearest = _Nearest(value, old, level.node)
        for rule in level.rules:
            error, forgivable = rule.broken(render(where), value, old, self.budget)
            if error is not None:
                is_old = forgivable and nearest.unchanged(self._likeness)
                (self.forgiven if is_old else self.found).append(error)
            if self.budget.exhausted:
                return
        if type(value) is dict:
            self._fields(level, value, old, nearest, where)
        elif type(value) is list and level.items is not None:
            self._items(level, value, old, nearest, where)

    def _fields(self, level: _Level, value: dict[str, Any], old: Any, nearest: _Nearest, where: Where) -> None:
        was: dict[str, Any] = old if type(old) is dict else {}
        for name, inner in level.fields.items():
            if name not in value:
                continue
            if level.root and name in TYPE_META:
                self.visit(inner, value[name], GONE, _Nearest(value[name], GONE), (where, name))
            else:
                self.visit(inner, value[name], _present(was, name), nearest, (where, name))
        if level.values is not None:
            for name, item in value.items():
                self.visit(level.values, item, _present(was, name), nearest, (where, MapKey(name)))

    def _items(self, level: _Level, value: list[Any], old: Any, nearest: _Nearest, where: Where) -> None:
        assert level.items is not None
        by_key: dict[Any, Any] = {}
        if level.keys and type(old) is list:
            for item in old:
                if (key := _key_of(item, level.keys)) is not None:
                    by_key.setdefault(key, item)
        for at, item in enumerate(value):
            was = by_key.get(_key_of(item, level.keys), GONE) if by_key else GONE
            self.visit(level.items, item, was, nearest, (where, at))


def _present(was: dict[str, Any], name: str) -> Any:
    value = was.get(name)
    return GONE if value is None else value


def _key_of(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...] | None:
    if type(item) is not dict:
        return None
    key = tuple([item.get(name) for name in keys])
    return None if any(isinstance(part, dict | list) for part in key) else key


def compile_rules(
    schema: Any, node: Node, path: str = "", *, bounded: bool = True
) -> tuple[RuleSet | None, list[FieldError]]:
    """The compiled rules in `schema`, from which `node` was parsed, and their errors; None without rules.

    `path` leads to the schema, for the errors. Without `bounded` the estimated cost isn't checked;
    the cost at run time is limited in any case.
    """
    build = _Build(bounded=bounded)
    decl = declare(node, root=True)
    level = build.level([(schema, path)], node, decl, _LevelPlace())
    level.root = True
    if build.total > SCHEMA_LIMIT:
        dearest = sorted(build.costs, key=lambda cost: -cost[0])[:_MOST_TOLD]
        build.errors += [Forbidden(where, _CONTRIBUTED) for _, where in dearest]
        build.errors.append(Forbidden(path, _too_dear(_WHOLE, "rule", build.total, SCHEMA_LIMIT)))
    return (RuleSet(level) if level else None), build.errors


@dataclass(frozen=True, slots=True)
class _LevelPlace:
    """The place of a level in the schema.

    `lost` is the enclosing list whose items have no counterpart in the old object. An object has at most `count` values
    at this place, None for as many as fit into a request because the lists or maps in `unbounded` have no limit.
    """

    lost: str = ""
    count: int | None = 1
    unbounded: tuple[str, ...] = ()

    def inside(self, decl: Decl | None, node: Node, lost: str) -> _LevelPlace:
        """The place of the items or values of a list or map."""
        word = bound_word(node)
        if word:
            name = decl.path if decl is not None else "self"
            return _LevelPlace(lost, None, (*self.unbounded, f"{name} ({word})"))
        return _LevelPlace(lost, None if self.count is None else self.count * max_elements(node), self.unbounded)


class _Build:
    def __init__(self, *, bounded: bool) -> None:
        self._bounded = bounded
        self.total = 0
        self.costs: list[tuple[int, str]] = []
        """The estimated cost of each expression, and where that is."""
        self.errors: list[FieldError] = []

    def level(self, schemas: list[tuple[Any, str]], node: Node | None, decl: Decl | None, place: _LevelPlace) -> _Level:
        """One level. Rules in `allOf` count as well; `anyOf`, `oneOf` and `not` can't have rules."""
        result = _Level(node=node)
        if node is None:
            return result
        spread = list(_with_all_of(schemas))
        result.rules = tuple(self._rules(spread, node, decl, place))
        for name, child in node.properties.items():
            inner = [
                (schema["properties"][name], f"{path}.properties[{name}]".lstrip("."))
                for schema, path in spread
                if type(schema.get("properties")) is dict and name in schema["properties"]
            ]
            level = self.level(inner, child, _field_of(decl, name, child), place)
            if level:
                result.fields[name] = level
        if isinstance(node.additional, Node):
            maps = place.inside(decl, node, place.lost)
            result.values = self._inner(spread, "additionalProperties", node.additional, decl, maps) or None
        if node.items is not None:
            lost = place.lost
            if node.list_type != "map" and not lost and spread:
                lost = spread[0][1] or "the root"
            lists = place.inside(decl, node, lost)
            result.items = self._inner(spread, "items", node.items, decl, lists) or None
            result.keys = node.list_keys if node.list_type == "map" else ()
        return result

    def _inner(
        self, spread: list[tuple[Any, str]], key: str, node: Node, decl: Decl | None, place: _LevelPlace
    ) -> _Level:
        schemas = [
            (schema[key], f"{path}.{key}".lstrip(".")) for schema, path in spread if type(schema.get(key)) is dict
        ]
        item = decl.item if decl is not None else None
        return self.level(schemas, node, item or declare(node, root=node.embedded), place)

    def _rules(
        self, spread: list[tuple[Any, str]], node: Node, decl: Decl | None, place: _LevelPlace
    ) -> Iterator[CompiledRule]:
        for schema, path in spread:
            for i, tree in enumerate(schema.get("x-kubernetes-validations") or ()):
                where = f"{path}.x-kubernetes-validations[{i}]".lstrip(".")
                rule = self._rule(tree, where, node, decl, place)
                if rule is not None:
                    yield rule

    def _wrong(self, error: FieldError) -> None:
        self.errors.append(error)

    def _rule(self, rule: Any, where: str, node: Node, decl: Decl | None, place: _LevelPlace) -> CompiledRule | None:
        before = len(self.errors)
        if type(rule) is not dict or any(type(rule.get(key, "")) is not str for key in _TEXTS):
            self._wrong(Invalid(where, rule, "must be an object with strings"))
            return None
        source = rule.get("rule", "")
        self._check_texts(rule, where)
        path = self._field_path(rule, where, node)
        if decl is None:
            self._wrong(Invalid(f"{where}.rule", source, "rules need a schema with a type"))
        if decl is None or not source.strip():
            return None
        optional_old = rule.get("optionalOldSelf") is True
        variables = variables_at(decl, optional_old=optional_old)
        checked = self._checked(rule, "rule", variables, where)
        if checked is None:
            self._check_old(rule, where, place, uses_old=False)
            return None
        uses_old = mentions(checked.tree, "oldSelf")
        self._check_old(rule, where, place, uses_old=uses_old)
        self._check_cost(checked.tree, f"{where}.rule", decl, place, ("estimated rule cost", "rule"))
        expression = rule.get("messageExpression", "")
        message = self._checked(rule, "messageExpression", variables, where) if expression.strip() else None
        if message is not None:
            names = ("estimated messageExpression cost", "messageExpression")
            self._check_cost(message.tree, f"{where}.messageExpression", decl, place, names)
        if len(self.errors) > before:
            return None
        try:
            return CompiledRule(
                program=checked.program(),
                decl=decl,
                source=source,
                message=rule.get("message", ""),
                message_program=None if message is None else message.program(),
                reason=rule.get("reason", ""),
                field_path=path,
                uses_old=uses_old,
                optional_old=optional_old,
                shows_value=node.type not in ("object", "array"),
            )
        except CompileError as error:
            self._wrong(Invalid(f"{where}.rule", source, f"compilation failed: {error}"))
            return None

    def _checked(
        self, rule: dict[str, Any], key: str, variables: dict[str, DeclaredVariable], where: str
    ) -> Checked | None:
        """One of a rule's expressions, checked. In errors the rule is shown as Kubernetes shows it."""
        expected, name = ("bool", "") if key == "rule" else ("string", "messageExpression ")
        try:
            checked = check_text(rule[key], variables)
        except CelError as error:
            self._wrong(Invalid(f"{where}.{key}", _in_go(rule), f"{name}compilation failed: {error}"))
            return None
        if checked.type.kind != expected:
            subject = "cel expression must evaluate to a bool" if not name else f"{name}must evaluate to a string"
            self._wrong(Invalid(f"{where}.{key}", _in_go(rule), subject))
            return None
        return checked

    def _check_texts(self, rule: dict[str, Any], where: str) -> None:
        source, message = rule.get("rule", "").strip(), rule.get("message", "")
        if not source:
            self._wrong(Required(f"{where}.rule", "rule is not specified"))
        if message and not message.strip():
            self._wrong(Invalid(f"{where}.message", message, "message must be non-empty if specified"))
        elif "\n" in message.strip():
            self._wrong(Invalid(f"{where}.message", message, "must not contain line breaks"))
        elif "\n" in source and not message:
            self._wrong(Required(f"{where}.message", "message must be specified if rule contains line breaks"))
        expression = rule.get("messageExpression", "")
        if expression and not expression.strip():
            text = "messageExpression must be non-empty if specified"
            self._wrong(Required(f"{where}.messageExpression", text))
        if rule.get("reason") and rule["reason"] not in _REASONS:
            self._wrong(NotSupported(f"{where}.reason", rule["reason"], _REASONS))

    def _field_path(self, rule: dict[str, Any], where: str, node: Node) -> str:
        path = rule.get("fieldPath", "")
        if not path:
            return ""
        text = path.strip()
        if not text:
            self._wrong(Invalid(f"{where}.fieldPath", path, "fieldPath must be non-empty if specified"))
        elif "\n" in text:
            self._wrong(Invalid(f"{where}.fieldPath", path, "must not contain line breaks"))
        else:
            try:
                return normalized(text, node)
            except FieldPathError:
                self._wrong(Invalid(f"{where}.fieldPath", path, "must be a valid path"))
        return ""

    def _check_old(self, rule: dict[str, Any], where: str, place: _LevelPlace, *, uses_old: bool) -> None:
        if "optionalOldSelf" in rule and rule["optionalOldSelf"] is not None and not uses_old:
            text = "may not be set if oldSelf is not used in rule"
            self._wrong(Invalid(f"{where}.optionalOldSelf", rule["optionalOldSelf"], text))
        if uses_old and place.lost:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.lost}"
            self._wrong(Invalid(f"{where}.rule", rule["rule"], text))

    def _check_cost(self, tree: Expr, where: str, decl: Decl, place: _LevelPlace, names: tuple[str, str]) -> None:
        """Errors of the estimate with Kubernetes' wording, then the unbounded lists, maps and strings."""
        if not self._bounded:
            return
        once, unbounded = estimate(tree, decl)
        count = place.count
        if count is None:
            count = MAX_REQUEST // (min_serialized(decl.node) + 1)
        cost = once.high * max(1, count)
        self.total += cost
        self.costs.append((cost, where))
        if cost > EXPRESSION_LIMIT:
            text = _too_dear(*names, cost, EXPRESSION_LIMIT)
            loose = list(dict.fromkeys((*place.unbounded, *unbounded)))
            if loose:
                text += f"; without a bound: {', '.join(name.removeprefix('self.') for name in loose[:10])}"
            self._wrong(Forbidden(where, text))


_MOST_TOLD = 4
_CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
_WHOLE = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"


def _too_dear(what: str, subject: str, cost: int, limit: int) -> str:
    times = cost / limit
    factor = "more than 100x" if times > 100 else f"{times:.1f}x" if times >= 1.5 else f"{times:f}x"
    bounds = "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared"
    return f"{what} exceeds budget by factor of {factor} (try simplifying the {subject}, or adding {bounds})"


def _in_go(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule as Kubernetes shows it in errors."""
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


_TEXTS = ("rule", "message", "messageExpression", "reason", "fieldPath")


def _with_all_of(schemas: list[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    for schema, path in schemas:
        if type(schema) is not dict:
            continue
        yield schema, path
        branches = schema.get("allOf")
        if type(branches) is list:
            yield from _with_all_of([(inner, f"{path}.allOf[{i}]".lstrip(".")) for i, inner in enumerate(branches)])


def _field_of(decl: Decl | None, name: str, child: Node) -> Decl | None:
    """The Decl of a property; one whose name can't be written in an expression still has its rules."""
    if decl is not None:
        for raw, inner in decl.fields.values():
            if raw == name:
                return inner
    return declare(child, root=child.embedded)
