"""The type checker: gives every node a type, or reports errors with their positions.

Overloads are chosen by unification; if several fit with different result types, the result is dyn. Dotted names are
resolved here, longest first, so that ``net.IP`` and ``sets.contains`` become one name. Also errors: literals that are
invalid arguments (a duration, a time, a regular expression), and list and map literals of mixed
types. Must not know: values of trees, cost. See also: `signatures`; `compiling`.
Source: cel-spec "Gradual Type Checking"; cel-go's AST validators, as Kubernetes turns them on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from oarlock.schema.cel import types
from oarlock.schema.cel.declared import Decl
from oarlock.schema.cel.library.signatures import CONSTANTS, Overload, overloads
from oarlock.schema.cel.native import duration_from, timestamp_from
from oarlock.schema.cel.problems import CompileError, Mistake
from oarlock.schema.cel.syntax.ast import Call, Const, Expr, Fold, Ident, ListOf, MapOf, Select, Steps, run
from oarlock.schema.cel.types import CelType, Overlay, TypeBindings, assignable, resolved
from oarlock.schema.cel.values import UInt
from oarlock.schema.structural.patterns import CompiledPattern, PatternError

MAX_MISTAKES = 20

MessageTypes = Callable[[str], CelType | None]
"""The type of the messages of a name, made by `types.message`; None if there are none."""

_LITERALS: dict[type, CelType] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
}


def check(
    tree: Expr,
    source: str,
    variables: dict[str, CelType],
    *,
    mixed: bool = False,
    messages: MessageTypes | None = None,
) -> Expr:
    """The tree with types and resolved names. CompileError with all errors.

    With `mixed`, literals may hold values of several types, which isn't allowed in rules. `messages` are the types
    of messages that an expression may make; rules may make none.
    """
    checker = _Checker(variables, mixed, messages)
    checked = run(checker.visit(tree))
    checker.settle()
    if checker.mistakes:
        raise CompileError.of(source, checker.mistakes[:MAX_MISTAKES])
    return checked


class _Checker:
    def __init__(self, variables: dict[str, CelType], mixed: bool, messages: MessageTypes | None) -> None:
        self._scopes: list[dict[str, CelType]] = [variables]
        self._bound: TypeBindings = {}
        self._fresh = 0
        self._mixed_allowed = int(mixed)
        self._messages = messages
        self._nodes: list[Expr] = []
        self.mistakes: list[Mistake] = []

    def settle(self) -> None:
        """Replace type variables by their bindings; unbound ones become dyn."""
        for node in self._nodes:
            node.type = _ground(resolved(self._bound, node.type))

    def visit(self, node: Expr) -> Steps[Expr]:
        checked = yield from self._visit(node)
        if checked.type.unwieldy:
            checked.type = self._mistake(checked, types.TOO_COMPLEX)
        self._nodes.append(checked)
        return checked

    def _visit(self, node: Expr) -> Steps[Expr]:
        match node:
            case Const():
                node.type = _LITERALS[type(node.value)]
                if node.value in (math.inf, -math.inf):
                    self._mistake(node, "invalid double literal")
            case Ident():
                self._name(node)
            case Select():
                return (yield from self._select(node))
            case Call():
                return (yield from self._call(node))
            case ListOf():
                yield from self._list(node)
            case MapOf():
                yield from self._map(node)
            case Fold():
                yield from self._fold(node)
        return node

    def _each(self, nodes: list[Expr]) -> Steps[list[Expr]]:
        checked = []
        for node in nodes:
            checked.append((yield self.visit(node)))
        return checked

    def _mistake(self, node: Expr, text: str) -> CelType:
        self.mistakes.append(Mistake(node.offset, text))
        return types.DYN

    def _shown(self, type_: CelType) -> str:
        return str(_ground(resolved(self._bound, type_)))

    # names ------------------------------------------------------------------------------------------

    def _lookup(self, name: str) -> CelType | None:
        bare = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if bare in scope:
                return scope[bare]
        return types.type_of(CONSTANTS[bare]) if bare in CONSTANTS else None

    def _name(self, node: Ident) -> None:
        named = self._lookup(node.name)
        node.name = node.name.removeprefix(".")
        node.type = (
            named
            if named is not None
            else self._mistake(node, f"undeclared reference to '{node.name}' (in container '')")
        )

    def _is_variable(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _dotted(self, node: Expr) -> str | None:
        """``a.b.c`` when that is the whole expression and ``a`` isn't a variable."""
        if isinstance(node, Ident):
            return None if self._is_variable(node.name) else node.name
        if isinstance(node, Select) and not node.test:
            inner = self._dotted(node.operand)
            return None if inner is None else f"{inner}.{node.field}"
        return None

    def _variable_of_two(self, node: Select) -> str | None:
        """The name of a variable with a dot in it, such as ``authorizer.requestResource``, unless a loop hides it."""
        if node.test or not isinstance(node.operand, Ident):
            return None
        name = f"{node.operand.name}.{node.field}"
        hidden = any(node.operand.name in scope for scope in self._scopes[1:])
        return name if name in self._scopes[0] and not hidden else None

    def _select(self, node: Select) -> Steps[Expr]:
        name = self._variable_of_two(node) or self._dotted(node)
        if name is not None and self._lookup(name) is not None:
            ident = Ident(node.offset, name)
            self._name(ident)
            return ident
        node.operand = yield self.visit(node.operand)
        node.type = self._field(node, resolved(self._bound, node.operand.type), node.field)
        if node.test:
            node.type = types.BOOL
        return node

    def _field(self, node: Expr, operand: CelType, name: str) -> CelType:
        if operand.kind == "optional":
            inner = self._field(node, resolved(self._bound, operand.params[0]), name)
            return inner if inner.kind == "optional" else types.optional_of(inner)
        if operand.kind == "object":
            decl: Decl = operand.node
            if name in decl.fields:
                return decl.fields[name][1].type
            return self._mistake(node, f"undefined field '{name}'")
        if operand.kind == "message":
            fields: Mapping[str, CelType] | None = operand.node
            if fields is None or name in fields:
                return types.DYN if fields is None else fields[name]
            return self._mistake(node, f"undefined field '{name}'")
        if operand.kind == "map":
            return operand.params[1]
        if operand.kind in ("dyn", "variable"):
            return types.DYN
        return self._mistake(node, f"type '{self._shown(operand)}' does not support field selection")

    # calls ------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Steps[Expr]:
        if node.target is not None:
            space = self._dotted(node.target)
            if space is not None and f"{space}.{node.function}" in overloads():
                node.function, node.target = f"{space}.{node.function}", None
        if node.function == "_?._":
            return (yield from self._optional_select(node))
        return (yield from self._checked_call(node))

    def _optional_select(self, node: Call) -> Steps[Expr]:
        node.args[0] = yield self.visit(node.args[0])
        name = node.args[1]
        assert isinstance(name, Const)
        inner = self._field(node, resolved(self._bound, node.args[0].type), str(name.value))
        node.type = inner if inner.kind == "optional" else types.optional_of(inner)
        return node

    def _checked_call(self, node: Call) -> Steps[Expr]:
        exempt = node.function == "format"
        if node.target is not None:
            node.target = yield self.visit(node.target)
        self._mixed_allowed += exempt
        node.args = yield from self._each(node.args)
        self._mixed_allowed -= exempt
        argument_types = [arg.type for arg in ([node.target] if node.target is not None else []) + node.args]
        choices = overloads().get(node.function, ())
        if not choices:
            node.type = self._mistake(node, f"undeclared reference to '{node.function}' (in container '')")
            return node
        result = self._choose(node, choices, argument_types)
        if result is None:
            node.type = self._mistake(node, self._no_overload(node, argument_types))
        else:
            node.type = result
        self._check_literal(node)
        return node

    def _choose(self, node: Call, choices: tuple[Overload, ...], argument_types: list[CelType]) -> CelType | None:
        member = node.target is not None
        result: CelType | None = None
        first: Overlay | None = None
        for choice in choices:
            if choice.member is not member or len(choice.params) != len(argument_types):
                continue
            self._fresh += 1
            rename = str(self._fresh)
            bound = Overlay(self._bound)
            params = [_renamed(param, rename) for param in choice.params]
            if not all(assignable(bound, *pair) for pair in zip(argument_types, params, strict=True)):
                continue
            node.choices = (*node.choices, choice.params)
            this = resolved(bound, _renamed(choice.result, rename))
            if result is None:
                result, first = this, bound
            elif str(result) != str(this):
                result, first = types.DYN, None
        if first is not None:
            self._bound.update(first)
        return result

    def _no_overload(self, node: Call, argument_types: list[CelType]) -> str:
        names = [self._shown(type_) for type_ in argument_types]
        if node.target is not None:
            applied = f"{names[0]}.({', '.join(names[1:])})"
        else:
            applied = f"({', '.join(names)})"
        return f"found no matching overload for '{node.function}' applied to '{applied}'"

    def _check_literal(self, node: Call) -> None:
        if not node.args or not isinstance(node.args[-1], Const) or type(node.args[-1].value) not in (str, int):
            return
        text = node.args[-1].value
        try:
            if node.function == "duration" and isinstance(text, str):
                duration_from(text)
            elif node.function == "timestamp":
                _check_timestamp(text)
            elif node.function == "matches" and isinstance(text, str):
                CompiledPattern(text)
        except (ValueError, PatternError):
            what = "timestamp" if node.function == "timestamp" else f"{node.function} argument"
            self._mistake(node.args[-1], f"invalid {what}")

    # literals and loops -----------------------------------------------------------------------------

    def _joined(self, items: list[tuple[Expr, CelType]]) -> CelType:
        """The common type of the items of a literal."""
        if not items:
            self._fresh += 1
            return types.variable(f"T{self._fresh}")
        joined = items[0][1]
        for node, type_ in items[1:]:
            if assignable(self._bound, type_, joined):
                continue
            if assignable(self._bound, joined, type_):
                joined = type_
            elif self._mixed_allowed:
                return types.DYN
            else:
                return self._mistake(node, f"expected type '{self._shown(joined)}' but found '{self._shown(type_)}'")
        return joined

    def _unwrapped(self, node: Expr, type_: CelType) -> CelType:
        """The type inside an optional with a question mark."""
        bound_type = resolved(self._bound, type_)
        if bound_type.kind == "optional":
            return bound_type.params[0]
        if bound_type.kind != "dyn":
            self._mistake(node, f"expected type 'optional_type(A)' but found '{self._shown(bound_type)}'")
        return types.DYN

    def _list(self, node: ListOf) -> Steps[None]:
        node.items = yield from self._each(node.items)
        typed = [
            (item, self._unwrapped(item, item.type) if i in node.optional else item.type)
            for i, item in enumerate(node.items)
        ]
        node.type = types.list_of(self._joined(typed))

    def _map(self, node: MapOf) -> Steps[None]:
        if node.message:
            yield from self._message(node)
            return
        entries = []
        for key, value, maybe in node.entries:
            entries.append(((yield self.visit(key)), (yield self.visit(value)), maybe))
        node.entries = entries
        keys = [(key, key.type) for key, _, _ in node.entries]
        values = [
            (value, self._unwrapped(value, value.type) if maybe else value.type) for _, value, maybe in node.entries
        ]
        node.type = types.map_of(self._joined(keys), self._joined(values))

    def _message(self, node: MapOf) -> Steps[None]:
        named = None if self._messages is None else self._messages(node.message.removeprefix("."))
        if named is None:
            node.type = self._mistake(node, f"undeclared reference to '{node.message}' (in container '')")
            return
        node.type, node.message = named, named.name
        fields: Mapping[str, CelType] | None = named.node
        entries: list[tuple[Expr, Expr, bool]] = []
        for key, value, maybe in node.entries:
            assert isinstance(key, Const)
            given = yield self.visit(value)
            entries.append((key, given, maybe))
            inner = self._unwrapped(given, given.type) if maybe else given.type
            wanted = types.DYN if fields is None else fields.get(str(key.value))
            if wanted is None or not assignable(self._bound, inner, wanted):
                expected, provided = "" if wanted is None else self._shown(wanted), self._shown(inner)
                text = f"expected type of field '{key.value}' is '{expected}' but provided type is '{provided}'"
                self._mistake(key, text)
        node.entries = entries

    def _fold(self, node: Fold) -> Steps[None]:
        node.over = yield self.visit(node.over)
        over = resolved(self._bound, node.over.type)
        first, second = self._items_of(node.over, over, pairs=bool(node.second))
        node.start = yield self.visit(node.start)
        self._scopes.append({node.accumulator: node.start.type})
        self._scopes.append({node.variable: first} | ({node.second: second} if node.second else {}))
        node.condition = yield self.visit(node.condition)
        node.step = yield self.visit(node.step)
        self._scopes.pop()
        if not assignable(self._bound, node.step.type, node.start.type):
            self._mistake(
                node.step, f"expected type '{self._shown(node.start.type)}' but found '{self._shown(node.step.type)}'"
            )
        node.result = yield self.visit(node.result)
        self._scopes.pop()
        node.type = node.result.type

    def _items_of(self, node: Expr, over: CelType, *, pairs: bool) -> tuple[CelType, CelType]:
        if over.kind == "list":
            return (types.INT, over.params[0]) if pairs else (over.params[0], types.DYN)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if over.kind not in ("dyn", "variable"):
            text = f"expression of type '{self._shown(over)}' cannot be range of a comprehension"
            self._mistake(node, f"{text} (must be list, map, or dynamic)")
        return types.DYN, types.DYN


def _check_timestamp(text: object) -> None:
    if isinstance(text, str):
        timestamp_from(text)
    elif isinstance(text, int) and not -62135596800 <= text <= 253402300799:
        raise ValueError(text)


def _renamed(type_: CelType, suffix: str) -> CelType:
    if type_.kind == "variable":
        return types.variable(f"{type_.name}{suffix}")
    if not type_.params:
        return type_
    return CelType(type_.kind, tuple(_renamed(inner, suffix) for inner in type_.params), type_.name, type_.node)


def _ground(type_: CelType) -> CelType:
    if type_.kind == "variable":
        return types.DYN
    if not type_.params:
        return type_
    return CelType(type_.kind, tuple(map(_ground, type_.params)), type_.name, type_.node)
