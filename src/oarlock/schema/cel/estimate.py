"""The static cost estimate: the maximum cost of an expression.

Evaluates the cost with the largest lists and texts that the schema allows. Remembers
which of them have no bound, so that an error message can name them.
See also: `sizes`; `costs`, the cost at run time. Source: cel-go checker cost estimation; Kubernetes' cost estimator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel.ast import Call, Const, Expr, Fold, Ident, ListOf, MapOf, Select
from oarlock.schema.cel.costs import LIST_COST, MAP_COST
from oarlock.schema.cel.declared import Decl
from oarlock.schema.cel.sizes import UNKNOWN, bound_word, max_elements
from oarlock.schema.cel.steps import Steps, run

__all__ = ["Estimate", "Estimator", "estimate"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A minimum and a maximum, of costs or sizes."""

    low: int = 0
    high: int = 0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(_cap(self.low + other.low), _cap(self.high + other.high))

    def __mul__(self, other: Estimate) -> Estimate:
        return Estimate(_cap(self.low * other.low), _cap(self.high * other.high))

    def either(self, other: Estimate) -> Estimate:
        return Estimate(min(self.low, other.low), max(self.high, other.high))

    def times(self, factor: float) -> Estimate:
        """Multiplied and rounded up."""
        if self.high >= UNKNOWN:
            return Estimate(math.ceil(self.low * factor), UNKNOWN)
        return Estimate(math.ceil(round(self.low * factor, 6)), math.ceil(round(self.high * factor, 6)))


def _cap(value: int) -> int:
    return min(value, UNKNOWN)


_ONE = Estimate(1, 1)
_ANY = Estimate(0, UNKNOWN)
_FORMAT_PATTERN = 60
_KEEPING = frozenset({"dyn", "value", "or", "orValue", "optional.of", "optional.ofNonZeroValue"})
_NOT_LARGER = frozenset(
    ("substring", "trim", "reverse", "sort", "distinct", "@sortByAssociatedKeys", "find", "findAll")
)
_WHOLE = frozenset({"opaque", "optional", "null", "type"})
_SCALARS = frozenset({"bool", "int", "uint", "double", "timestamp", "duration", "null", "type"})


@dataclass(frozen=True, slots=True)
class _Operand:
    """The size of a value, and the schema of it or its items, as far as they are known.

    `inside` is the size of the items of a list that the expression makes.
    """

    size: Estimate
    decl: Decl | None = None
    item: Decl | None = None
    inside: Estimate | None = None


_Visited = tuple[Estimate, _Operand]


def estimate(tree: Expr, roots: dict[str, Decl | None]) -> tuple[Estimate, list[str]]:
    """The cost of a checked expression, and the values without bound: ``self.spec.ports (maxItems)``, …"""
    estimator = Estimator(roots)
    cost, _ = run(estimator.visit(tree))
    return cost, list(dict.fromkeys(estimator.unbounded))


@dataclass(slots=True)
class Estimator:
    """Estimates one expression."""

    roots: dict[str, Decl | None]
    unbounded: list[str] = field(default_factory=list)
    _scope: dict[str, _Operand] = field(default_factory=dict)

    def _of(self, decl: Decl) -> _Operand:
        return _Operand(Estimate(0, max_elements(decl.node)), decl, decl.item)

    def _sized(self, operand: _Operand) -> Estimate:
        """The size of a value, for the cost."""
        if operand.decl is not None and (word := bound_word(operand.decl.node)):
            self.unbounded.append(f"{operand.decl.path} ({word})")
        return operand.size

    def visit(self, node: Expr) -> Steps[_Visited]:
        """The cost of a node, and its known value."""
        cost, operand = yield from self._inner(node)
        if operand.decl is None and node.type.kind in _SCALARS:
            operand = _Operand(_ONE)
        return cost, operand

    def _inner(self, node: Expr) -> Steps[_Visited]:
        match node:
            case Const(value=value):
                size = len(value) if isinstance(value, str | bytes) else 1
                return Estimate(), _Operand(Estimate(size, size))
            case Ident():
                return _ONE, self._ident(node.name)
            case Select():
                return (yield from self._select(node))
            case Call():
                return (yield from self._call(node))
            case ListOf():
                return (yield from self._list(node))
            case MapOf():
                total = Estimate(MAP_COST, MAP_COST)
                for key, value, _ in node.entries:
                    (key_cost, _), (value_cost, _) = (yield self.visit(key)), (yield self.visit(value))
                    total = total + key_cost + value_cost
                return total, _Operand(Estimate(len(node.entries), len(node.entries)))
            case Fold():
                return (yield from self._fold(node))
        raise AssertionError(node)

    def _ident(self, name: str) -> _Operand:
        if name in self._scope:
            return self._scope[name]
        decl = self.roots.get(name)
        return _Operand(_ANY) if decl is None else self._of(decl)

    def _select(self, node: Select) -> Steps[_Visited]:
        cost, operand = yield self.visit(node.operand)
        if node.test:
            return cost, _Operand(_ONE)
        return cost + _ONE, self._field(operand, node.field)

    def _field(self, operand: _Operand, name: str) -> _Operand:
        decl = operand.decl
        if decl is not None and name in decl.fields:
            return self._of(decl.fields[name][1])
        if operand.item is not None:
            return self._of(operand.item)
        return _Operand(_ANY)

    def _list(self, node: ListOf) -> Steps[_Visited]:
        total = Estimate(LIST_COST, LIST_COST)
        inside: Estimate | None = None
        for item in node.items:
            cost, operand = yield self.visit(item)
            total = total + cost
            inside = operand.size if inside is None else inside.either(operand.size)
        size = Estimate(len(node.items) - len(node.optional), len(node.items))
        return total, _Operand(size, inside=inside or Estimate())

    def _fold(self, node: Fold) -> Steps[_Visited]:
        over_cost, over = yield self.visit(node.over)
        start_cost, start = yield self.visit(node.start)
        size = self._sized(over)
        outer = dict(self._scope)
        item = self._item(over)
        of_map = node.over.type.kind == "map"
        if node.second:
            self._scope[node.variable], self._scope[node.second] = _Operand(_ANY), item
        else:
            self._scope[node.variable] = _Operand(_ANY) if of_map else item
        self._scope[node.accumulator] = start
        (asking, _), (turning, turned) = (yield self.visit(node.condition)), (yield self.visit(node.step))
        gathers = isinstance(node.start, ListOf | MapOf)
        if gathers:
            self._scope[node.accumulator] = _Operand(Estimate(0, size.high), inside=turned.inside)
        result_cost, result = yield self.visit(node.result)
        self._scope = outer
        return over_cost + start_cost + size * (asking + turning) + result_cost, result

    # calls ------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Steps[_Visited]:
        nodes = ([node.target] if node.target is not None else []) + node.args
        costs: list[Estimate] = []
        operands: list[_Operand] = []
        for arg in nodes:
            cost, operand = yield self.visit(arg)
            costs.append(cost)
            operands.append(operand)
        name = node.function
        if name in ("_&&_", "_||_"):
            return Estimate(costs[0].low, (costs[0] + costs[1]).high), _Operand(_ONE)
        if name == "_?_:_":
            _, first, second = operands
            cost = costs[0] + costs[1].either(costs[2])
            if first.decl is None or first.decl is not second.decl:
                return cost, _Operand(first.size.either(second.size), inside=self._inside(first, second))
            return cost, first
        total = Estimate()
        for cost in costs:
            total = total + cost
        if name in ("_[_]", "_[?_]"):
            return total + _ONE, self._item(operands[0])
        if name == "_?._":
            field_name = node.args[1]
            assert isinstance(field_name, Const)
            return total + _ONE, self._field(operands[0], str(field_name.value))
        if name in _KEEPING:
            return total + _ONE, operands[0]
        price = _PRICES.get(name)
        result = _Operand(self._result(name, nodes, operands))
        if name == "_+_" and node.type.kind == "list":
            result = _Operand(result.size, inside=self._inside(*operands))
        return total + (_ONE if price is None else price(self, nodes, operands)), result

    def _item(self, operand: _Operand) -> _Operand:
        return _Operand(operand.inside or _ANY) if operand.item is None else self._of(operand.item)

    def _inside(self, first: _Operand, second: _Operand) -> Estimate | None:
        """The size of the items of two lists together."""
        sizes = [self._of(one.item).size if one.item is not None else one.inside for one in (first, second)]
        return sizes[0].either(sizes[1]) if sizes[0] is not None and sizes[1] is not None else None

    def _result(self, name: str, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        """The size of the result of a call."""
        if not operands:
            return _ANY
        size = operands[0].size
        match name:
            case "_+_":
                return size + operands[1].size
            case "lowerAscii" | "upperAscii" | "flatten":
                return size
            case "split" | "slice" | "lists.range":
                return Estimate(0, min(_literal_count(name, nodes), UNKNOWN if name == "lists.range" else size.high))
            case "join":
                return self._joined_size(operands)
            case "replace":
                return self._replaced_size(operands)
            case "string" if nodes[0].type.kind in ("string", "bytes"):
                return size
            case "bytes":
                return Estimate(size.low, _cap(size.high * 4))
            case "strings.quote":
                return Estimate(size.low + 2, _cap(size.high * 2 + 2))
        return Estimate(0, size.high) if name in _NOT_LARGER else _ANY

    def _joined_size(self, operands: list[_Operand]) -> Estimate:
        items = operands[0].size
        size = items * self._item_size(operands[0])
        if len(operands) > 1:
            size = size + operands[1].size * Estimate(max(0, items.low - 1), max(0, items.high - 1))
        return size

    def _replaced_size(self, operands: list[_Operand]) -> Estimate:
        """The size of the result of ``replace``: an empty pattern matches between any two characters."""
        whole, old, new = (text.size for text in operands[:3])
        if old.low == 0:
            return Estimate(0, _cap(_cap(whole.high + 1) * new.high + whole.high))
        return Estimate(0, max(whole.high, _cap(-(-whole.high // old.low) * new.high)))

    # prices -----------------------------------------------------------------------------------------

    def _equality(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        if any(node.type.kind in _WHOLE for node in nodes):
            return _ONE
        return self._shorter(nodes, operands)

    def _shorter(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        shorter = operands[0] if operands[0].size.high <= operands[1].size.high else operands[1]
        high = self._sized(shorter).high
        return Estimate(min(1, high), high).times(0.1)

    def _concatenation(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        if not any(node.type.kind in ("string", "bytes") for node in nodes):
            return _ONE
        return (self._sized(operands[0]) + self._sized(operands[1])).times(0.1)

    def _matching(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        return (self._sized(operands[0]) + _ONE).times(0.1) * self._sized(operands[1]).times(0.25)

    def _validated(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        pattern = Estimate(_FORMAT_PATTERN, _FORMAT_PATTERN)
        return (self._sized(operands[1]) + _ONE).times(0.1) * pattern.times(0.25)

    def _contains(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        return self._sized(operands[0]).times(0.1) * self._sized(operands[1]).times(0.1)

    def _member(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        return self._sized(operands[1]) if nodes[1].type.kind != "map" else _ONE

    def _text(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        if nodes[0].type.kind not in ("string", "bytes", "dyn"):
            return _ONE
        return self._sized(operands[0]).times(0.1)

    def _text_twice(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        return self._sized(operands[0]).times(0.2)

    def _bytes_only(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        return self._sized(operands[0]).times(0.1) if nodes[0].type.kind == "bytes" else _ONE

    def _traversal(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        if nodes[0].type.kind == "string":
            return self._sized(operands[0]).times(0.1)
        each = _ONE
        params = nodes[0].type.params
        if params and params[0].kind in ("string", "bytes"):
            each = each + self._item_size(operands[0]).times(0.1)
        return self._sized(operands[0]) * each

    def _item_size(self, operand: _Operand) -> Estimate:
        if operand.item is not None:
            return self._sized(self._of(operand.item))
        return operand.inside or _ANY

    def _joined(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        for text in operands[:2]:
            self._sized(text)
        return self._joined_size(operands).times(0.1)

    def _part(self, nodes: list[Expr], operands: list[_Operand]) -> Estimate:
        return self._sized(operands[1]).times(0.1)

    def _set(self, factor: int) -> Callable[[list[Expr], list[_Operand]], Estimate]:
        def price(nodes: list[Expr], operands: list[_Operand]) -> Estimate:
            return _ONE + self._sized(operands[0]) * self._sized(operands[1]) * Estimate(factor, factor)

        return price


def _literal_count(name: str, nodes: list[Expr]) -> int:
    """The maximum length of a list whose length depends on arguments, if these are literals."""
    numbers = [arg.value if isinstance(arg, Const) and type(arg.value) is int else None for arg in nodes]
    last = numbers[-1]
    if last is None or last < 0:
        return UNKNOWN
    if name == "slice":
        return max(0, last - (numbers[1] or 0))
    return last if name == "lists.range" or len(nodes) == 3 else UNKNOWN


_Price = Callable[[Estimator, list[Expr], list[_Operand]], Estimate]

_PRICES: dict[str, _Price] = {
    "_==_": Estimator._equality,
    "_!=_": Estimator._equality,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), Estimator._shorter),
    "_+_": Estimator._concatenation,
    "matches": Estimator._matching,
    "find": Estimator._matching,
    "findAll": Estimator._matching,
    "contains": Estimator._contains,
    "@in": Estimator._member,
    "string": Estimator._bytes_only,
    "validate": Estimator._validated,
    **dict.fromkeys(
        (
            *("bytes", "strings.quote", "format", "lowerAscii", "upperAscii", "substring"),
            *("trim", "jsonpatch.escapeKey", "url", "isURL", "ip", "isIP", "cidr", "isCIDR", "quantity"),
            *("isQuantity", "semver", "isSemver"),
        ),
        Estimator._text,
    ),
    **dict.fromkeys(("startsWith", "endsWith"), Estimator._part),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), Estimator._text_twice),
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "sort", "reverse", "distinct", "flatten"),
        Estimator._traversal,
    ),
    "join": Estimator._joined,
    "sets.contains": lambda self, nodes, known: self._set(1)(nodes, known),
    "sets.intersects": lambda self, nodes, known: self._set(1)(nodes, known),
    "sets.equivalent": lambda self, nodes, known: self._set(2)(nodes, known),
}
