"""What one call may cost at most, by the sizes that its values may have; and the sizes that a schema allows.

Sizes come from the bounds of the schema where it has any, else from what fits into a request of 3 MiB.

A price is for one overload: of a call whose types aren't known, all that may be meant count. A value of unknown
size has the largest there is, so that a comparison of two such values exceeds every limit.
See also: `estimate`, which asks; `costs`, the cost at run time.
Source: cel-go 0.26, checker/cost.go and ext; Kubernetes 1.36, library/cost.go; apiserver's CEL limits and
schema model (KEP-2876).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel.library.costs import LIST_COST
from oarlock.schema.cel.syntax.ast import Const, Expr
from oarlock.schema.cel.types import CelType
from oarlock.schema.structural.nodes import MISSING, Node

MAX_REQUEST = 3 * 1024 * 1024
"""Bytes of the largest request."""

UNKNOWN = 2**64 - 1
"""A size nothing is known of."""

_STRINGS = {"duration": (3, 32), "date": (12, 12), "date-time": (21, 32)}


def min_serialized(node: Node, depth: int = 0) -> int:
    """The size in bytes of the shortest JSON of a value."""
    if node.type == "boolean":
        return 4
    if node.type in ("integer", "number") or node.int_or_string or depth > 100:
        return 1
    if node.type == "string":
        return _STRINGS.get(node.format, (2, 0))[0]
    size = 2
    for name in () if isinstance(node.additional, Node) else node.constraints.required:
        child = node.properties.get(name)
        if child is not None and child.default is MISSING and _is_shown(child):
            size += len(name.encode()) + min_serialized(child, depth + 1) + 4
    return size


def _is_shown(node: Node) -> bool:
    """Whether expressions see a value."""
    if node.type == "array":
        return node.int_or_string or (node.items is not None and _is_shown(node.items))
    if node.type == "object" and isinstance(node.additional, Node):
        return _is_shown(node.additional)
    return bool(node.type) or node.int_or_string


def max_elements(node: Node) -> int:
    """The maximum of a list's items, a map's entries or a text's bytes; 0 for anything else."""
    rules = node.constraints
    if node.int_or_string:
        return MAX_REQUEST - 2 if rules.max_length is None else max(0, rules.max_length) * 4
    if node.type == "array":
        if rules.max_items is not None:
            return max(0, rules.max_items)
        return (MAX_REQUEST - 2) // ((min_serialized(node.items) if node.items is not None else 1) + 1)
    if node.type == "object" and isinstance(node.additional, Node):
        if rules.max_properties is not None:
            return max(0, rules.max_properties)
        return (MAX_REQUEST - 2) // (min_serialized(node.additional) + 6)
    if node.type != "string":
        return 0
    if node.format in _STRINGS:
        return _STRINGS[node.format][1]
    if rules.max_length is not None:
        return max(0, rules.max_length) * (1 if node.format == "byte" else 4)
    if node.format != "byte" and rules.enum:
        return max((len(text.encode()) for text in rules.enum if isinstance(text, str)), default=0)
    return MAX_REQUEST - 2


def bound_word(node: Node) -> str:
    """The keyword that would bound a value (``maxItems`` …); empty when it is bounded."""
    rules = node.constraints
    if node.type == "array":
        return "maxItems" if rules.max_items is None else ""
    if node.type == "object":
        return "maxProperties" if isinstance(node.additional, Node) and rules.max_properties is None else ""
    if node.type == "string" and node.format not in _STRINGS:
        return "maxLength" if rules.max_length is None and not rules.enum else ""
    return ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A minimum and a maximum, of costs or sizes; `UNKNOWN` is the largest."""

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
        return Estimate(_times(self.low, factor), _times(self.high, factor))


def _cap(value: int) -> int:
    return min(value, UNKNOWN)


def _times(value: int, factor: float) -> int:
    return _cap(math.ceil(value * factor))


ONE = Estimate(1, 1)
NOT_KNOWN = Estimate(0, UNKNOWN)

_CALL = Estimate(1, 1)
_TRAVERSAL = 0.1
_PATTERN = 0.25
_FORMAT_PATTERN = 128 * _PATTERN
_FORMAT = Estimate(1, 64)
_ADDRESS = Estimate(4, 16)
_REQUIREMENT = 50.0
_TEXTS = frozenset({"string", "bytes"})


@dataclass(frozen=True, slots=True)
class Operand:
    """A value that a call is given. `item` is the size of its items; `loose` names it if nothing bounds it.

    Without `is_known`, its size is `NOT_KNOWN`.
    """

    node: Expr
    size: Estimate
    item: Estimate
    loose: str
    is_known: bool


@dataclass(frozen=True, slots=True)
class PricedCall:
    """A call by one of its overloads, that with `params`. What has no bound is added to `unbounded`.

    The first of `operands` is what it is called on, if it `is_member`.
    """

    params: tuple[CelType, ...]
    operands: list[Operand]
    is_member: bool
    unbounded: list[str]

    def kind(self, at: int) -> str:
        return self.params[at].kind

    def size(self, at: int) -> Estimate:
        operand = self.operands[at]
        if operand.loose:
            self.unbounded.append(operand.loose)
        return operand.size


@dataclass(frozen=True, slots=True)
class Price:
    """The cost of a call, and the size of its result as far as that is known."""

    cost: Estimate
    size: Estimate | None = None


_PriceOf = Callable[[PricedCall], Price]
_NOMINAL = Price(ONE)


def price(name: str, call: PricedCall) -> Price:
    """The price of a call of the function or operator `name`, without that of its arguments."""
    priced = _PRICES.get(name)
    return _NOMINAL if priced is None else priced(call)


def _traversed(at: int = 0, factor: float = 1, *, sized: bool = False) -> _PriceOf:
    """Reading a text, `factor` times. With `sized`, the result is as large as the text."""

    def priced(call: PricedCall) -> Price:
        size = call.size(at)
        return Price(size.times(factor * _TRAVERSAL), size if sized else None)

    return priced


def _equality(call: PricedCall) -> Price:
    low, high = (call.operands[at].size.high for at in (0, 1))
    smaller = call.size(0 if low <= high else 1).high
    return Price(Estimate(min(1, smaller), smaller).times(_TRAVERSAL))


def _equal(call: PricedCall) -> Price:
    first, second = (operand.node.type for operand in call.operands)
    if str(first) != str(second) or first.kind != "opaque":
        return _equality(call)
    if first.name == "kubernetes.URL" and call.operands[1].is_known:
        return Price(Estimate(1, call.operands[1].size.high).times(_TRAVERSAL))
    return Price(_FORMAT.times(_TRAVERSAL) if first.name == "kubernetes.NamedFormat" else ONE)


def _order(call: PricedCall) -> Price:
    return _equality(call) if call.kind(0) in _TEXTS and call.kind(0) == call.kind(1) else _NOMINAL


def _sum(call: PricedCall) -> Price:
    if call.kind(0) == "list":
        return Price(ONE, call.operands[0].size + call.operands[1].size)
    if call.kind(0) not in _TEXTS:
        return _NOMINAL
    size = call.size(0) + call.size(1)
    return Price(size.times(_TRAVERSAL), size)


def _member(call: PricedCall) -> Price:
    return Price(call.size(1)) if call.kind(1) == "list" else _NOMINAL


def _to_bytes(call: PricedCall) -> Price:
    if call.kind(0) != "string":
        return _NOMINAL
    size = call.size(0)
    return Price(size.times(_TRAVERSAL), Estimate(size.low, size.high * 4 & UNKNOWN))


def _to_text(call: PricedCall) -> Price:
    if call.kind(0) != "bytes":
        return _NOMINAL
    size = call.size(0)
    return Price(size.times(_TRAVERSAL), Estimate(size.low // 4, size.high))


def _quoted(call: PricedCall) -> Price:
    size = call.size(0)
    return Price(size.times(_TRAVERSAL), Estimate(size.low + 2, size.high * 2 + 2 & UNKNOWN))


def _matching(call: PricedCall) -> Estimate:
    return (call.size(0) + ONE).times(_TRAVERSAL) * call.size(1).times(_PATTERN)


def _matches(call: PricedCall) -> Price:
    return Price(_matching(call)) if call.is_member else _NOMINAL


def _find(call: PricedCall) -> Price:
    return Price(_matching(call), Estimate(0, call.operands[0].size.high))


def _contains(call: PricedCall) -> Price:
    return Price(call.size(0).times(_TRAVERSAL) * call.size(1).times(_TRAVERSAL))


def _validate(call: PricedCall) -> Price:
    return Price(call.size(1).times(_TRAVERSAL).times(_FORMAT_PATTERN))


def _replace(call: PricedCall) -> Price:
    whole, old, new = (operand.size for operand in call.operands[:3])
    cost = call.size(0).times(2 * _TRAVERSAL)
    low = _replaced(whole.low, old.high, new.low, shrinks=old.high > new.low)
    return Price(cost, Estimate(low, _replaced(whole.high, old.low, new.high, shrinks=new.high > old.low)))


def _replaced(whole: int, old: int, new: int, *, shrinks: bool) -> int:
    """The size of a text in which as many parts of a size as it may have were replaced, if that is what `shrinks` it.

    An empty part is found between any two characters.
    """
    if old == 0:
        return _cap(_cap(_cap(whole + 1) * new) + whole)
    return _cap(_cap(math.ceil(whole / old)) * new) if shrinks else whole


def _split(call: PricedCall) -> Price:
    size = call.size(0)
    most = size.high
    if len(call.operands) > 2 and (literal := _whole_number(call.operands[2].node)) is not None:
        most = literal & UNKNOWN
    return Price(size.times(2 * _TRAVERSAL), Estimate(0, most))


def _join(call: PricedCall) -> Price:
    items = call.size(0)
    size = items * call.operands[0].item
    if len(call.operands) > 1:
        size = size + call.size(1) * Estimate(max(0, items.low - 1), max(0, items.high - 1))
    return Price(size.times(_TRAVERSAL), size)


def _listed(call: PricedCall) -> Price:
    """Looking at all items of a list, or, for a text, at all of it."""
    of_list = call.operands[0].node.type
    if of_list.kind != "list":
        return Price(call.size(0).times(_TRAVERSAL))
    each = ONE
    if of_list.params[0].kind in _TEXTS:
        each = each + call.operands[0].item.times(_TRAVERSAL)
    return Price(call.size(0) * each)


def _allocated(size: Estimate, factor: float = 1) -> Price:
    return Price(size.times(factor) + _CALL + Estimate(LIST_COST, LIST_COST), size)


def _slice(call: PricedCall) -> Price:
    start, end = (_whole_number(operand.node) for operand in call.operands[1:])
    last = call.size(0).high if end is None else max(0, end)
    length = last - max(0, start or 0) & UNKNOWN
    return _allocated(Estimate(length, length))


def _range(call: PricedCall) -> Price:
    count = _whole_number(call.operands[0].node)
    length = UNKNOWN if count is None else max(0, count)
    return _allocated(Estimate(length, length))


def _flatten(call: PricedCall) -> Price:
    depth: int | None = 1
    if len(call.operands) > 1:
        depth = _whole_number(call.operands[1].node)
    return _allocated(call.size(0), float(UNKNOWN if depth is None else max(0, depth)))


def _compared(at: int) -> _PriceOf:
    """Comparing the items of a list with one another."""

    def priced(call: PricedCall) -> Price:
        size = call.size(at)
        texts = call.params[at].params[0].kind in _TEXTS
        return _allocated(size * size, 2 + _TRAVERSAL if texts else 2.0)

    return priced


def _distinct(call: PricedCall) -> Price:
    size = call.size(0)
    return _allocated(size * size, 2.0)


def _set(factor: float) -> _PriceOf:
    return lambda call: Price((call.size(0) * call.size(1)).times(factor) + _CALL)


def _ip(call: PricedCall) -> Price:
    return _NOMINAL if call.is_member else _traversed()(call)


def _within(base: Estimate) -> _PriceOf:
    def priced(call: PricedCall) -> Price:
        parsed = call.size(1).times(_TRAVERSAL) if call.kind(1) == "string" else Estimate()
        return Price(base + parsed)

    return priced


def _selector(call: PricedCall) -> Price:
    size = call.size(1)
    cost = Estimate(LIST_COST, LIST_COST) + size.times(_TRAVERSAL) + size.times(0.5).times(_REQUIREMENT)
    return Price(cost)


def _whole_number(node: Expr) -> int | None:
    value = node.value if isinstance(node, Const) else None
    return value if type(value) is int else None


_BYTES_COMPARED = (_ADDRESS + _ADDRESS).times(_TRAVERSAL)
_CHECK = 350_000

_PRICES: dict[str, _PriceOf] = {
    "_==_": _equal,
    "_!=_": _equality,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _order),
    "_+_": _sum,
    "@in": _member,
    "bytes": _to_bytes,
    "string": _to_text,
    "strings.quote": _quoted,
    "matches": _matches,
    "find": _find,
    "findAll": _find,
    "contains": _contains,
    "validate": _validate,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "format": _traversed(),
    **dict.fromkeys(("startsWith", "endsWith"), _traversed(1)),
    **dict.fromkeys(
        ("url", "jsonpatch.escapeKey", "lowerAscii", "upperAscii", "substring", "trim"), _traversed(sized=True)
    ),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"),
        _traversed(),
    ),
    "ip": _ip,
    "ip.isCanonical": _traversed(factor=2),
    "containsIP": _within(_BYTES_COMPARED),
    "containsCIDR": _within(_BYTES_COMPARED + _ADDRESS.times(_TRAVERSAL) + ONE),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _listed),
    "slice": _slice,
    "lists.range": _range,
    "flatten": _flatten,
    "reverse": lambda call: _allocated(call.size(0)),
    "distinct": _distinct,
    "sort": _compared(0),
    "@sortByAssociatedKeys": _compared(1),
    "sets.contains": _set(1),
    "sets.intersects": _set(1),
    "sets.equivalent": _set(2),
    "check": lambda call: Price(Estimate(_CHECK, _CHECK)),
    "fieldSelector": _selector,
    "labelSelector": _selector,
}
