"""The static cost estimate: the least and the greatest cost of an expression.

Follows cel-go's estimate in every step and in their order, for a rule that one accepts and the other refuses is a
definition that can't be moved between servers. So what cel-go doesn't know isn't known here either, and where it looks
up the size of a value at a wrong place, so does this. Keys of maps have the size 0. The items of a list that the
expression made have the size of the value that the rule is for. And a path may change after it was made, see
`_ValuePath`. Remembers which values have no bound, so that an error message can name them.
See also: `prices`, what a call costs; `costs`, the cost at run time.
Source: cel-go 0.26, checker/cost.go; Kubernetes 1.36, the size estimator of apiextensions' rules.
"""

from __future__ import annotations

from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel.declared import Decl, escape
from oarlock.schema.cel.library.costs import LIST_COST, MAP_COST, MESSAGE_COST
from oarlock.schema.cel.prices import (
    NOT_KNOWN,
    ONE,
    UNKNOWN,
    Estimate,
    Operand,
    PricedCall,
    bound_word,
    max_elements,
    price,
)
from oarlock.schema.cel.syntax.ast import Call, Const, Expr, Fold, Ident, ListOf, MapOf, Select, Steps, run
from oarlock.schema.cel.types import CelType

_SCALARS = frozenset({"bool", "int", "uint", "double", "timestamp", "duration"})
_WITH_FIELDS = frozenset({"map", "object", "message"})
_ITEMS, _KEYS, _INDICES = "@items", "@keys", "@indices"


@dataclass(slots=True, eq=False)
class _ValuePath:
    """The steps from the root to a value, the first of which is the name of a variable.

    Grows as Go's slices do: while there is room in `cells`, a longer path is written into those of the shorter one. So
    the second of two paths that begin alike may take the place of the first.
    """

    cells: list[str]
    length: int

    def steps(self) -> list[str]:
        return self.cells[1 : self.length]


def _longer(path: _ValuePath | None, step: str) -> _ValuePath:
    if path is None:
        return _ValuePath([step], 1)
    cells, length = path.cells, path.length
    if length == len(cells):
        cells = [*cells, *("",) * length]
    cells[length] = step
    return _ValuePath(cells, length + 1)


@dataclass(frozen=True, slots=True)
class _Entries:
    """The kind of a list or map that the expression makes, and the size of its items."""

    kind: str
    item: Estimate


@dataclass(frozen=True, slots=True)
class _Local:
    """What is known of a variable of a loop."""

    path: _ValuePath | None
    size: Estimate | None = None
    entries: _Entries | None = None


def estimate(tree: Expr, root: Decl | None) -> tuple[Estimate, list[str]]:
    """The cost of a checked expression, and the values without bound: ``self.spec.ports (maxItems)``, …

    `root` is the schema of `self`, None if that isn't known.
    """
    estimator = _Estimator(root)
    cost = run(estimator.visit(tree))
    return cost, list(dict.fromkeys(estimator.unbounded))


@dataclass(slots=True)
class _Estimator:
    """Estimates one expression. What is known of a node is kept by its identity: nodes aren't compared."""

    root: Decl | None
    unbounded: list[str] = field(default_factory=list)
    _scopes: dict[str, list[_Local]] = field(default_factory=dict)
    _paths: dict[Expr, _ValuePath | None] = field(default_factory=dict)
    _sizes: dict[Expr, Estimate] = field(default_factory=dict)
    _entries: dict[Expr, _Entries] = field(default_factory=dict)

    def visit(self, node: Expr) -> Steps[Estimate]:
        """The cost of a node."""
        match node:
            case Const():
                return Estimate()
            case Ident():
                local = self._local(node)
                self._paths[node] = _ValuePath([node.name], 1) if local is None else local.path
                return ONE
            case Select():
                return (yield from self._select(node))
            case Call():
                return (yield from self._call(node))
            case ListOf():
                return (yield from self._list(node))
            case MapOf():
                return (yield from self._map(node))
            case Fold():
                return (yield from self._bound(node) if _is_bound(node) else self._fold(node))
        raise AssertionError(node)

    # what is known of values ------------------------------------------------------------------------

    def _local(self, node: Expr) -> _Local | None:
        scope = self._scopes.get(node.name) if isinstance(node, Ident) else None
        return scope[-1] if scope else None

    def _path(self, node: Expr) -> _ValuePath | None:
        local = self._local(node)
        return self._paths.get(node) if local is None else local.path

    def _decl(self, path: _ValuePath) -> Decl | None:
        """The schema of the value at a path; None if it isn't known, or the value is a key."""
        decl = self.root
        for step in path.steps():
            if decl is None or step == _KEYS:
                return None
            if step == _ITEMS:
                decl = decl.item
            else:
                raw, inner = decl.fields.get(step, ("", None))
                decl = inner if escape(raw) == step else None
        return decl

    def _size_at(self, path: _ValuePath | None) -> Estimate | None:
        if path is None:
            return None
        decl = self._decl(path)
        if decl is not None:
            return Estimate(0, max_elements(decl.node))
        *before, last = [*path.cells[: path.length]]
        of_map = self._decl(_ValuePath(before, len(before))) if last == _KEYS and before else None
        return Estimate() if of_map is not None and of_map.type.kind == "map" else None

    def _size(self, node: Expr) -> Estimate | None:
        if node in self._sizes:
            return self._sizes[node]
        if (written := _written_size(node)) is not None:
            return Estimate(written, written)
        if (size := self._size_at(self._path(node))) is not None:
            self._sizes[node] = size
            return size
        if _is_scalar(node.type):
            return ONE
        local = self._local(node)
        return None if local is None else local.size

    def _entries_of(self, node: Expr) -> _Entries | None:
        if node in self._entries:
            return self._entries[node]
        local = self._local(node)
        return None if local is None else local.entries

    def _same(self, node: Expr, other: Expr) -> None:
        """`node` has the size of another, and its items."""
        if (size := self._size(other)) is not None:
            self._sizes[node] = size
        if (entries := self._entries_of(other)) is not None:
            self._entries[node] = entries

    def _loose(self, node: Expr) -> str:
        path = self._path(node)
        decl = None if path is None or node in self._entries else self._decl(path)
        word = "" if decl is None else bound_word(decl.node)
        return "" if decl is None or not word else f"{decl.path} ({word})"

    def _operand(self, node: Expr) -> Operand:
        path = self._path(node)
        size = self._size(node)
        items = None if path is None else _ValuePath([*path.cells[: path.length], _ITEMS], path.length + 1)
        return Operand(node, size or NOT_KNOWN, self._size_at(items) or NOT_KNOWN, self._loose(node), size is not None)

    # nodes ------------------------------------------------------------------------------------------

    def _select(self, node: Select) -> Steps[Estimate]:
        cost: Estimate = yield self.visit(node.operand)
        if node.test:
            return cost
        self._paths[node] = _longer(self._path(node.operand), node.field)
        return cost + ONE if node.operand.type.kind in _WITH_FIELDS else cost

    def _list(self, node: ListOf) -> Steps[Estimate]:
        total = Estimate(LIST_COST, LIST_COST)
        size = Estimate() if not node.items else Estimate(UNKNOWN, 0)
        for item in node.items:
            total = total + (yield self.visit(item))
            size = size.either(self._size(item) or NOT_KNOWN)
        self._entries[node] = _Entries("list", size)
        return total

    def _map(self, node: MapOf) -> Steps[Estimate]:
        total = Estimate(MESSAGE_COST, MESSAGE_COST) if node.message else Estimate(MAP_COST, MAP_COST)
        size = Estimate() if not node.entries else Estimate(UNKNOWN, 0)
        for key, value, _ in node.entries:
            total = total + (yield self.visit(key)) + (yield self.visit(value))
            size = size.either(self._size(value) or NOT_KNOWN)
        if not node.message:
            self._entries[node] = _Entries("map", size)
        return total

    def _bound(self, node: Fold) -> Steps[Estimate]:
        """A name for a value, which is written as a loop over nothing."""
        total: Estimate = (yield self.visit(node.over)) + (yield self.visit(node.start))
        self._enter(node.accumulator, self._of_start(node))
        total = total + (yield self.visit(node.result))
        self._scopes[node.accumulator].pop()
        self._same(node, node.result)
        return total

    def _fold(self, node: Fold) -> Steps[Estimate]:
        total: Estimate = (yield self.visit(node.over)) + (yield self.visit(node.start))
        self._enter(node.accumulator, self._of_start(node))
        if loose := self._loose(node.over):
            self.unbounded.append(loose)
        over, entries = self._path(node.over), self._entries_of(node.over)
        is_list = (node.over.type.kind if entries is None else entries.kind) == "list"
        if node.second:
            self._enter(node.variable, _Local(_longer(over, _INDICES if is_list else _KEYS)))
            self._enter(node.second, _Local(_longer(over, _ITEMS)))
        else:
            self._enter(node.variable, _Local(_longer(over, _ITEMS if is_list else _KEYS)))
        each: Estimate = (yield self.visit(node.condition)) + (yield self.visit(node.step))
        for name in (node.variable, node.second) if node.second else (node.variable,):
            self._scopes[name].pop()
        total = total + (yield self.visit(node.result))
        self._scopes[node.accumulator].pop()
        size = self._size(node.over) or NOT_KNOWN
        match node.start:
            case Const():
                self._sizes[node] = self._size(node.start) or NOT_KNOWN
            case ListOf() | MapOf():
                self._sizes[node] = size
                if (made := self._entries_of(node.step)) is not None:
                    self._entries[node] = made
        return total + size * each

    def _enter(self, name: str, local: _Local) -> None:
        self._scopes.setdefault(name, []).append(local)

    def _of_start(self, node: Fold) -> _Local:
        return _Local(self._path(node.start), self._size(node.start), self._entries_of(node.start))

    # calls ------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Steps[Estimate]:
        if node.function == "dyn":
            cost: Estimate = yield self.visit(node.args[0])
            self._same(node, node.args[0])
            return cost + ONE
        costs: list[Estimate] = []
        operands: list[Operand] = []
        for arg in (*node.args, node.target):
            if arg is not None:
                costs.append((yield self.visit(arg)))
                operands.append(self._operand(arg))
        if node.target is not None:
            operands.insert(0, operands.pop())
        match node.function:
            case "_&&_" | "_||_":
                return Estimate(costs[0].low, (costs[0] + costs[1]).high)
            case "_?_:_":
                self._chosen(node)
                return costs[0] + costs[1].either(costs[2])
        if node.function == "_+_":
            self._added(node)
        total = sum(costs, Estimate())
        return total + (self._priced(node, operands) if node.choices else ONE)

    def _chosen(self, node: Call) -> None:
        _, first, second = node.args
        entries, others = self._entries_of(first), self._entries_of(second)
        if entries is not None and others is not None:
            self._entries[node] = _Entries(entries.kind, entries.item.either(others.item))
        self._sizes[node] = (self._size(first) or NOT_KNOWN).either(self._size(second) or NOT_KNOWN)

    def _added(self, node: Call) -> None:
        entries, others = self._entries_of(node.args[0]), self._entries_of(node.args[1])
        if entries is not None and others is not None:
            self._entries[node] = _Entries(entries.kind, entries.item.either(others.item))

    def _priced(self, node: Call, operands: list[Operand]) -> Estimate:
        """The price of a call, the highest of those that may be meant, and the size of what it results in."""
        cost, size = Estimate(UNKNOWN, 0), None
        for params in node.choices:
            choice = price(node.function, PricedCall(params, operands, node.target is not None, self.unbounded))
            cost = cost.either(choice.cost)
            if choice.size is not None:
                size = choice.size if size is None else size.either(choice.size)
            if node.function == "_[_]" and params[0].kind != "optional":
                entries = self._entries_of(node.args[0])
                size = None if entries is None else entries.item
                self._paths[node] = _longer(self._path(node.args[0]), _ITEMS)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[node] = size
        return cost


def _is_bound(node: Fold) -> bool:
    condition = node.condition
    empty = isinstance(node.over, ListOf) and not node.over.items
    return empty and isinstance(condition, Const) and condition.value is False


def _written_size(node: Expr) -> int | None:
    match node:
        case Const(value=value):
            return len(value) if isinstance(value, str | bytes) else 1
        case ListOf():
            return len(node.items)
        case MapOf():
            return None if node.message else len(node.entries)
    return None


def _is_scalar(type_: CelType) -> bool:
    while type_.kind == "optional":
        type_ = type_.params[0]
    return type_.kind in _SCALARS
