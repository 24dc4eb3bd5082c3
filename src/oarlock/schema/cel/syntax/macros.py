"""Expands macros: ``has``, ``all``, ``map`` and so on become loops in the syntax tree.

Every node of an expansion has the position of the opening parenthesis. Some macros copy an argument, so a short
text could expand to a huge tree; `Macros` counts the copies and stops.
Must not know: tokens. See also: `ast`, what is built; `parsing`, which asks for every call.
Source: cel-spec "Macros"; cel-go's standard macros, two-variable comprehensions, optional types and lists library,
which are those of Kubernetes' environment. ``cel.bind`` isn't among them.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.schema.cel.problems import CompileError, Mistake
from oarlock.schema.cel.syntax.ast import Call, Const, Expr, Fold, Ident, ListOf, MapOf, Select, Steps, run

MAX_COPIES = 20_000
"""Nodes that the macros of one expression may copy."""

_RESULT = "@result"
_UNUSED = "#unused"
_SORTED = "@__sortBy_input__"

_Expand = Callable[["Macros", int, Expr, list[Expr]], Expr]


class _WrongArguments(Exception):
    """The arguments of a macro are invalid."""

    def __init__(self, node: Expr, text: str) -> None:
        super().__init__(text)
        self.mistake = Mistake(node.offset, text)


class Macros:
    """Expands the macros of one expression. Errors are added to `mistakes`."""

    def __init__(self, source: str, mistakes: list[Mistake]) -> None:
        self._source = source
        self._mistakes = mistakes
        self._copies = 0

    def global_call(self, offset: int, name: str, args: list[Expr]) -> Expr:
        """``name(args)``."""
        if name != "has" or len(args) != 1:
            return Call(offset, name, None, args)
        (field,) = args
        if isinstance(field, Select) and not field.test:
            return Select(offset, field.operand, field.field, True)
        self._mistakes.append(Mistake(field.offset, "invalid argument to has() macro"))
        return field

    def member_call(self, offset: int, target: Expr, name: str, args: list[Expr]) -> Expr:
        """``target.name(args)``."""
        expand = _MACROS.get((name, len(args)))
        if expand is None:
            return Call(offset, name, target, args)
        try:
            return expand(self, offset, target, args)
        except _WrongArguments as refused:
            self._mistakes.append(refused.mistake)
            return target

    def copy(self, node: Expr) -> Expr:
        """A copy of the tree, because the checker changes nodes."""
        return run(self._copy(node))

    def _copy(self, node: Expr) -> Steps[Expr]:
        self._copies += 1
        if self._copies > MAX_COPIES:
            text = f"expression grows by more than {MAX_COPIES} nodes when its macros are expanded"
            raise CompileError.of(self._source, [*self._mistakes, Mistake(node.offset, text)])
        match node:
            case Const(value=value):
                return Const(node.offset, value)
            case Ident(name=name):
                return Ident(node.offset, name)
            case Select():
                return Select(node.offset, (yield self._copy(node.operand)), node.field, node.test)
            case Call():
                target = None if node.target is None else (yield self._copy(node.target))
                return Call(node.offset, node.function, target, (yield from self._copies_of(node.args)))
            case ListOf():
                return ListOf(node.offset, (yield from self._copies_of(node.items)), node.optional)
            case MapOf():
                keys = yield from self._copies_of([key for key, _, _ in node.entries])
                values = yield from self._copies_of([value for _, value, _ in node.entries])
                optional = [maybe for _, _, maybe in node.entries]
                return MapOf(node.offset, list(zip(keys, values, optional, strict=True)), node.message)
            case Fold():
                parts = [node.over, node.start, node.condition, node.step, node.result]
                over, start, condition, step, result = yield from self._copies_of(parts)
                names = node.variable, node.second, node.accumulator
                return Fold(node.offset, over, *names, start, condition, step, result)
        raise AssertionError(node)

    def _copies_of(self, nodes: list[Expr]) -> Steps[list[Expr]]:
        copies = []
        for node in nodes:
            copies.append((yield self._copy(node)))
        return copies


def _call(at: int, name: str, *args: Expr) -> Call:
    return Call(at, name, None, list(args))


def _result(at: int) -> Ident:
    return Ident(at, _RESULT)


def _name(node: Expr, otherwise: str) -> str:
    if not isinstance(node, Ident) or node.name.startswith("."):
        raise _WrongArguments(node, otherwise)
    return node.name


def _free(node: Expr, name: str) -> str:
    if name in (_RESULT, "__result__"):
        raise _WrongArguments(node, "iteration variable overwrites accumulator variable")
    return name


def _names(args: list[Expr], count: int) -> tuple[str, str]:
    """The variables of a loop; the second is empty when there is only one."""
    names = [_name(node, "argument must be a simple name") for node in args[:count]]
    if count == 1:
        return _free(args[0], names[0]), ""
    if names[0] == names[1]:
        raise _WrongArguments(args[1], f"duplicate variable name: {names[0]}")
    return _free(args[0], names[0]), _free(args[1], names[1])


def _quantifier(kind: str, variables: int) -> _Expand:
    def expand(macros: Macros, at: int, over: Expr, args: list[Expr]) -> Expr:
        names = _names(args, variables)
        predicate = args[-1]
        result: Expr = _result(at)
        condition: Expr = Const(at, True)
        step: Expr
        start: Expr
        if kind == "all":
            start, condition = Const(at, True), _call(at, "@not_strictly_false", _result(at))
            step = _call(at, "_&&_", _result(at), predicate)
        elif kind == "exists":
            start = Const(at, False)
            condition = _call(at, "@not_strictly_false", _call(at, "!_", _result(at)))
            step = _call(at, "_||_", _result(at), predicate)
        else:
            start = Const(at, 0)
            step = _call(at, "_?_:_", predicate, _call(at, "_+_", _result(at), Const(at, 1)), _result(at))
            result = _call(at, "_==_", _result(at), Const(at, 1))
        return Fold(at, over, *names, _RESULT, start, condition, step, result)

    return expand


def _gathered(at: int, over: Expr, names: tuple[str, str], start: Expr, step: Expr, only: Expr | None) -> Fold:
    """A loop that appends an item in each iteration, or in each one for which `only` holds."""
    if only is not None:
        step = _call(at, "_?_:_", only, step, _result(at))
    return Fold(at, over, *names, _RESULT, start, Const(at, True), step, _result(at))


def _item_name(node: Expr) -> tuple[str, str]:
    return _free(node, _name(node, "argument is not an identifier")), ""


def _map(macros: Macros, at: int, over: Expr, args: list[Expr]) -> Expr:
    step = _call(at, "_+_", _result(at), ListOf(at, [args[-1]]))
    return _gathered(at, over, _item_name(args[0]), ListOf(at, []), step, args[1] if len(args) == 3 else None)


def _filter(macros: Macros, at: int, over: Expr, args: list[Expr]) -> Expr:
    names = _item_name(args[0])
    step = _call(at, "_+_", _result(at), ListOf(at, [args[0]]))
    return _gathered(at, over, names, ListOf(at, []), step, args[1])


def _transform_list(macros: Macros, at: int, over: Expr, args: list[Expr]) -> Expr:
    step = _call(at, "_+_", _result(at), ListOf(at, [args[-1]]))
    return _gathered(at, over, _names(args, 2), ListOf(at, []), step, args[2] if len(args) == 4 else None)


def _transform_map(macros: Macros, at: int, over: Expr, args: list[Expr]) -> Expr:
    names = _names(args, 2)
    step = _call(at, "cel.@mapInsert", _result(at), Ident(at, names[0]), args[-1])
    return _gathered(at, over, names, MapOf(at, []), step, args[2] if len(args) == 4 else None)


def _transform_entries(macros: Macros, at: int, over: Expr, args: list[Expr]) -> Expr:
    step = _call(at, "cel.@mapInsert", _result(at), args[-1])
    return _gathered(at, over, _names(args, 2), MapOf(at, []), step, args[2] if len(args) == 4 else None)


def _bound(at: int, name: str, value: Expr, inside: Expr) -> Fold:
    """`inside` with `value` bound to a name: a loop over an empty list."""
    return Fold(at, ListOf(at, []), _UNUSED, "", name, value, Const(at, False), Ident(at, name), inside)


def _optional(name: str, *, flat: bool) -> _Expand:
    def expand(macros: Macros, at: int, target: Expr, args: list[Expr]) -> Expr:
        variable = _name(args[0], f"{name}() variable name must be a simple identifier")
        value = Call(at, "value", macros.copy(target), [])
        tree: Expr = _bound(at, variable, value, args[1])
        if not flat:
            tree = _call(at, "optional.of", tree)
        return _call(at, "_?_:_", Call(at, "hasValue", target, []), tree, _call(at, "optional.none"))

    return expand


def _sort_by(macros: Macros, at: int, over: Expr, args: list[Expr]) -> Expr:
    if isinstance(over, Const | MapOf):
        text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise _WrongArguments(over, text)
    keys = _map(macros, at, Ident(at, _SORTED), args)
    return _bound(at, _SORTED, over, Call(at, "@sortByAssociatedKeys", Ident(at, _SORTED), [keys]))


_MACROS: dict[tuple[str, int], _Expand] = {
    **{(name, 2): _quantifier(name, 1) for name in ("all", "exists", "exists_one", "existsOne")},
    **{(name, 3): _quantifier(name, 2) for name in ("all", "exists", "exists_one", "existsOne")},
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entries,
    ("transformMapEntry", 4): _transform_entries,
    ("optMap", 2): _optional("optMap", flat=False),
    ("optFlatMap", 2): _optional("optFlatMap", flat=True),
    ("sortBy", 2): _sort_by,
}
"""By name and number of arguments."""
