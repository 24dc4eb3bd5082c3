"""A checked expression → closures.

Every node becomes a function of one argument, the environment: a list of the cost so far, the cost limit, and the
variables. Constant costs of a part of the expression are summed at compile time and charged
once; branches and iterations of loops charge their own. The costs are those of cel-go's cost tracker.
Values that the schema describes are read from the tree as they are (`Code.decl`) and converted only when needed.
Must not know: syntax, rules. See also: `folding` for loops, `functions` for what is called.
Source: cel-spec "Evaluation" (errors of ``&&`` and ``||`` are forgiven when the other side decides).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel import looping, reading
from oarlock.schema.cel.declared import Decl
from oarlock.schema.cel.library.costs import CALL_COSTS, LIST_COST, MAP_COST, MESSAGE_COST, Regex
from oarlock.schema.cel.library.functions import FUNCTIONS
from oarlock.schema.cel.library.signatures import CONSTANTS
from oarlock.schema.cel.problems import CelError, CompileError, EvalError, Mistake
from oarlock.schema.cel.reading import Env, Run
from oarlock.schema.cel.syntax import ast
from oarlock.schema.cel.syntax.ast import Call, Const, Expr, Fold, Ident, ListOf, MapOf, Select, Steps
from oarlock.schema.cel.values import Optional, TypeValue, equals, from_key, no_overload, to_key
from oarlock.schema.structural.patterns import PatternError

_FIRST_SLOT = 2


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled node. The caller charges `cost`; with `decl` the value is part of the tree, described by it.

    `fixed`: the value doesn't depend on variables.
    """

    run: Run
    cost: int
    decl: Decl | None = None
    fixed: bool = False


class Interruption:
    """Stops programs that run in another thread: each then ends with OverBudget at its next charge."""

    __slots__ = ("_running", "_stopped")

    def __init__(self) -> None:
        self._running: list[Env] = []
        self._stopped = False

    def stop(self) -> None:
        """Whatever runs ends, and what begins later as well."""
        self._stopped = True
        for env in [*self._running]:
            env[1] = -1

    def entered(self, env: Env) -> None:
        self._running.append(env)
        if self._stopped:
            env[1] = -1

    def left(self) -> None:
        self._running.pop()


class Program:
    """A compiled expression."""

    __slots__ = ("_code", "_slots")

    def __init__(self, code: Code, slots: int) -> None:
        self._code = code
        self._slots = slots

    def run(self, values: tuple[Any, ...], limit: int, interruption: Interruption | None = None) -> tuple[Any, int]:
        """The value and the cost for these values of the variables. EvalError or OverBudget, with its `cost` set."""
        env: Env = [self._code.cost, limit, *values, *([None] * self._slots)]
        if interruption is not None:
            interruption.entered(env)
        try:
            value = self._code.run(env)
        except CelError as error:
            error.cost = env[0]
            raise
        except RecursionError as error:
            wrong = EvalError("nested too deeply")
            wrong.cost = env[0]
            raise wrong from error
        finally:
            if interruption is not None:
                interruption.left()
        if env[0] > limit:
            raise reading.over_budget()
        return value, env[0]


def compile_program(tree: Expr, source: str, roots: dict[str, Decl | None], *, optimize: bool = True) -> Program:
    """Compile a checked expression. `roots` are the variables in the order `Program.run` takes them; those with a
    `Decl` are given as trees. With `optimize`, literals of constants are made once and cost nothing, as in rules.
    CompileError for what can be known to fail, such as a regular expression that isn't one.
    """
    compiler = Compiler(source, roots, optimize=optimize)
    code = ast.run(compiler.native(tree))
    return Program(code, compiler.slots)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
_PLAIN = frozenset({"int", "uint", "double", "bool", "timestamp", "duration"})
_ORDERED = _PLAIN | {"string", "bytes"}
_REGEX = frozenset({"matches", "find", "findAll"})


class Compiler:
    """Makes `Code` from nodes. One per expression."""

    def __init__(self, source: str, roots: dict[str, Decl | None], *, optimize: bool) -> None:
        self._source = source
        self._optimize = optimize
        self._scope: dict[str, tuple[int, Decl | None]] = {
            name: (slot, decl) for slot, (name, decl) in enumerate(roots.items(), _FIRST_SLOT)
        }
        self._next = _FIRST_SLOT + len(roots)
        self.slots = 0

    # for loops --------------------------------------------------------------------------------------

    def slot(self) -> int:
        self.slots += 1
        self._next += 1
        return self._next - 1

    def within(self, names: dict[str, tuple[int, Decl | None]], node: Expr) -> Steps[Code]:
        """Compile a node with additional variables."""
        outer = self._scope
        self._scope = {**outer, **names}
        code: Code = yield self.native(node)
        self._scope = outer
        return code

    # nodes ------------------------------------------------------------------------------------------

    def native(self, node: Expr) -> Steps[Code]:
        """Compile a node and convert its value from the tree's form."""
        code: Code = yield self.compile(node)
        return _native(code)

    def _natives(self, nodes: list[Expr]) -> Steps[list[Code]]:
        codes = []
        for node in nodes:
            codes.append((yield self.native(node)))
        return codes

    def compile(self, node: Expr) -> Steps[Code]:
        match node:
            case Const(value=value):
                return Code(lambda env: value, 0, fixed=True)
            case Ident():
                return self._ident(node)
            case Select():
                return (yield from self._select(node))
            case Call():
                return (yield from self._call(node))
            case ListOf():
                return (yield from self._list(node))
            case MapOf():
                return (yield from self._map(node))
            case Fold():
                return (yield from self._fold(node))
        raise AssertionError(node)

    def _ident(self, node: Ident) -> Code:
        if node.name in self._scope:
            slot, decl = self._scope[node.name]
            return Code(reading.variable(slot), 1, decl)
        named = CONSTANTS[node.name]
        name = {"null": "null_type", "optional": "optional_type"}.get(named.kind, str(named).partition("(")[0])
        value = TypeValue(name)
        return Code(lambda env: value, 0)

    def _operand(self, node: Expr) -> Steps[Code]:
        """The operand of a field or index access. One that isn't itself such an access costs 1."""
        code: Code = yield self.compile(node)
        if isinstance(node, Ident | Select) or (isinstance(node, Call) and node.function in _READING):
            return code
        return replace(code, cost=code.cost + 1)

    def _select(self, node: Select) -> Steps[Code]:
        operand: Code = yield self._operand(node.operand)
        decl, run = operand.decl, operand.run
        if decl is not None and decl.fields:
            if node.field not in decl.fields:
                return Code(reading.missing(node.field), operand.cost + 1)
            name, child = decl.fields[node.field]
            if decl.computed:
                run = (lambda env: True) if node.test else reading.computed(run, name)
                return Code(run, operand.cost + (not node.test), child)
            if node.test:
                return Code(reading.has_field(run, name, child), operand.cost)
            slot = self._slot_of(node.operand)
            read = reading.field(run, name, slot)
            return _read(read, operand.cost + 1, child)
        if decl is not None and decl.item is not None and decl.node.type == "object":
            if node.test:
                return Code(reading.has_key(run, node.field), operand.cost)
            return _read(reading.map_key(run, node.field), operand.cost + 1, decl.item)
        if decl is not None:
            run = reading.converted(run, decl.convert)
        if node.test:
            return Code(reading.has_dynamic(run, node.field), operand.cost)
        return Code(reading.dynamic(run, node.field), operand.cost + 1)

    def _slot_of(self, node: Expr) -> int | None:
        return self._scope[node.name][0] if isinstance(node, Ident) and node.name in self._scope else None

    def _index(self, node: Call) -> Steps[Code]:
        operand: Code = yield self._operand(node.args[0])
        key: Code = yield self.native(node.args[1])
        cost = operand.cost + key.cost + 1
        maybe = node.function == "_[?_]"
        decl, run = operand.decl, operand.run
        if decl is not None and decl.item is not None and not maybe:
            item = reading.item if decl.node.type == "array" else reading.entry
            return _read(item(run, key.run, decl.item), cost, decl.item)
        if decl is not None:
            run = reading.converted(run, decl.convert)
        return Code((reading.maybe_index if maybe else reading.index)(run, key.run), cost)

    # calls ------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Steps[Code]:
        match node.function:
            case "_&&_":
                return (yield from self._logic(node, decided_by=False))
            case "_||_":
                return (yield from self._logic(node, decided_by=True))
            case "_?_:_":
                return (yield from self._ternary(node))
            case "_[_]" | "_[?_]":
                return (yield from self._index(node))
            case "_?._":
                operand = yield self._operand(node.args[0])
                run = operand.run if operand.decl is None else reading.converted(operand.run, operand.decl.convert)
                name = node.args[1]
                assert isinstance(name, Const)
                return Code(reading.maybe_field(run, str(name.value)), operand.cost + 1)
            case "_==_" | "_!=_":
                return (yield from self._equality(node))
            case "or" | "orValue":
                return (yield from self._or_else(node))
            case "size":
                return (yield from self._size(node))
        return (yield from self._plain_call(node))

    def _plain_call(self, node: Call) -> Steps[Code]:
        nodes = ([node.target] if node.target is not None else []) + node.args
        args = yield from self._natives(nodes)
        base = sum(arg.cost for arg in args)
        runs = [arg.run for arg in args]
        kinds = [arg.type.kind for arg in nodes]
        if node.function in _COMPARISONS and all(kind in _ORDERED for kind in kinds):
            if all(kind in _PLAIN for kind in kinds) and (kinds[0] == kinds[1] or "double" not in kinds):
                return Code(_compared(_COMPARISONS[node.function], runs, nodes), base + 1)
        elif node.function in _REGEX and isinstance(node.args[0 if node.target is not None else 1], Const):
            return self._regex(node, runs, base)
        called = FUNCTIONS[_name_of(node)]
        price = CALL_COSTS.get(_name_of(node))
        if price is None:
            return Code(_applied(called, runs), base + 1)
        if node.function == "_+_" and all(kind in _PLAIN for kind in kinds):
            return Code(_applied(called, runs), base + 1)
        return Code(reading.priced(called, runs, price), base)

    def _regex(self, node: Call, runs: list[Run], base: int) -> Code:
        at = 0 if node.target is not None else 1
        pattern = node.args[at]
        assert isinstance(pattern, Const)
        try:
            compiled = Regex(str(pattern.value))
        except PatternError as error:
            mistake = Mistake(pattern.offset, f"program instantiation failed: {error}")
            raise CompileError(mistake.text, (mistake,)) from error
        constant: Run = lambda env: compiled  # noqa: E731  (one of several forms of the same thing)
        runs = [constant if i == 1 else run for i, run in enumerate(runs)]
        return Code(reading.priced(FUNCTIONS[node.function], runs, CALL_COSTS[node.function]), base)

    def _branch(self, code: Code) -> Run:
        """A part that doesn't always run charges its own cost."""
        cost, run = code.cost, code.run
        if not cost:
            return run

        def charged(env: Env) -> Any:
            env[0] += cost
            return run(env)

        return charged

    def _logic(self, node: Call, *, decided_by: bool) -> Steps[Code]:
        first, second = yield from self._natives(node.args)
        left, right = first.run, self._branch(second)

        def logic(env: Env) -> Any:
            try:
                value = left(env)
            except EvalError as error:
                if right(env) is decided_by:
                    return decided_by
                raise error
            if value is decided_by:
                return decided_by
            other = right(env)
            if other is decided_by:
                return decided_by
            if type(value) is not bool or type(other) is not bool:
                raise no_overload()
            return not decided_by

        return Code(logic, first.cost)

    def _ternary(self, node: Call) -> Steps[Code]:
        condition: Code = yield self.native(node.args[0])
        yes: Code = yield self.compile(node.args[1])
        no: Code = yield self.compile(node.args[2])
        decl = yes.decl if yes.decl is no.decl else None
        if decl is None:
            yes, no = _native(yes), _native(no)
        when, then, otherwise = condition.run, self._branch(yes), self._branch(no)

        def ternary(env: Env) -> Any:
            chosen = when(env)
            if chosen is True:
                return then(env)
            if chosen is False:
                return otherwise(env)
            raise no_overload()

        return Code(ternary, condition.cost, decl)

    def _equality(self, node: Call) -> Steps[Code]:
        nodes = node.args
        args = yield from self._natives(nodes)
        base = sum(arg.cost for arg in args)
        kinds = [arg.type.kind for arg in nodes]
        negated = node.function == "_!=_"
        runs = [arg.run for arg in args]
        if kinds[0] == kinds[1] and kinds[0] in _PLAIN:
            return Code(_compared(operator.ne if negated else operator.eq, runs, nodes), base + 1)
        if kinds == ["string", "string"] and isinstance(nodes[1], Const):
            return Code(reading.equals_text(runs[0], str(nodes[1].value), negated), base)
        if negated:
            return Code(reading.priced(lambda a, b: not equals(a, b), runs, CALL_COSTS["_==_"]), base)
        return Code(reading.priced(equals, runs, CALL_COSTS["_==_"]), base)

    def _or_else(self, node: Call) -> Steps[Code]:
        assert node.target is not None
        target, other = yield from self._natives([node.target, node.args[0]])
        first, second, whole = target.run, other.run, node.function == "or"

        def or_else(env: Env) -> Any:
            value = first(env)
            alternative = second(env)
            if type(value) is not Optional:
                raise no_overload()
            if value.present:
                return value if whole else value.value
            return alternative

        return Code(or_else, target.cost + other.cost + 1)

    def _size(self, node: Call) -> Steps[Code]:
        operand: Code = yield self.compile(node.target if node.target is not None else node.args[0])
        return Code(_applied(FUNCTIONS["size"], [operand.run]), operand.cost + 1)

    # literals ---------------------------------------------------------------------------------------

    def _list(self, node: ListOf) -> Steps[Code]:
        codes = yield from self._natives(node.items)
        if self._optimize and codes and not node.optional and all(code.fixed for code in codes):
            values = [code.run([]) for code in codes]
            return Code(lambda env: values, 0, fixed=True)
        cost = sum(code.cost for code in codes) + LIST_COST
        runs = [code.run for code in codes]
        if not node.optional:
            return Code(lambda env: [run(env) for run in runs], cost)
        optional = node.optional

        def listed(env: Env) -> list[Any]:
            values = []
            for i, run in enumerate(runs):
                value = run(env)
                if i not in optional:
                    values.append(value)
                elif type(value) is not Optional:
                    raise no_overload()
                elif value.present:
                    values.append(value.value)
            return values

        return Code(listed, cost)

    def _map(self, node: MapOf) -> Steps[Code]:
        if node.message:
            return (yield from self._message(node))
        entries: list[tuple[Code, Code, bool]] = []
        for key_node, value_node, maybe in node.entries:
            entries.append(((yield self.native(key_node)), (yield self.native(value_node)), maybe))
        cost = sum(key.cost + value.cost for key, value, _ in entries) + MAP_COST
        parts = [(key.run, value.run, maybe) for key, value, maybe in entries]

        def mapped(env: Env) -> dict[Any, Any]:
            result: dict[Any, Any] = {}
            for key_of, value_of, maybe in parts:
                key, value = to_key(key_of(env)), value_of(env)
                if maybe:
                    if type(value) is not Optional:
                        raise no_overload()
                    if not value.present:
                        continue
                    value = value.value
                if key in result:
                    raise EvalError(f"Failed with repeated key: {from_key(key)}")
                result[key] = value
            return result

        if self._optimize and entries and all(key.fixed and value.fixed and not maybe for key, value, maybe in entries):
            try:
                constant = mapped([])
            except EvalError:
                return Code(mapped, 0)
            return Code(lambda env: constant, 0, fixed=True)
        return Code(mapped, cost)

    def _message(self, node: MapOf) -> Steps[Code]:
        """Code that makes an object; its fields are those that were given, under the names that they have in trees."""
        fields: list[tuple[str, Run, bool]] = []
        cost = MESSAGE_COST
        for key, value_node, maybe in node.entries:
            assert isinstance(key, Const)
            value: Code = yield self.native(value_node)
            fields.append((str(key.value), value.run, maybe))
            cost += value.cost
        return Code(reading.message(fields, node.message), cost)

    # loops ------------------------------------------------------------------------------------------

    def _fold(self, node: Fold) -> Steps[Code]:
        over: Code = yield self.compile(node.over)
        start: Code = yield self.native(node.start)
        run, items = over.run, None
        if over.decl is not None and over.decl.item is not None:
            items = over.decl.item
            run = reading.items_of(run, over.decl)
        elif over.decl is not None:
            run = reading.converted(run, over.decl.convert)
        pairs = bool(node.second)
        over_map = over.decl is not None and over.decl.node.type == "object"
        held = items if items is not None and (items.fields or items.item is not None) else None
        slots = (self.slot(), self.slot() if pairs else -1, self.slot())
        loop_names: dict[str, tuple[int, Decl | None]] = {node.accumulator: (slots[2], None)}
        turn_names = dict(loop_names)
        turn_names[node.variable] = (slots[0], None if over_map or pairs else held)
        if pairs:
            turn_names[node.second] = (slots[1], held)
        convert = items.convert if items is not None and held is None else None
        shape = looping.LoopSlots(*slots, convert)
        predicate = _quantified(node)
        if predicate is not None:
            turn: Code = yield self.within(turn_names, predicate)
            every = isinstance(node.start, Const) and node.start.value is True
            return Code(looping.quantifier(run, shape, turn.run, turn.cost, every=every), over.cost + 1)
        gathered = _gathered(node)
        if gathered is not None:
            only, each = gathered
            only_if: Code | None = None if only is None else (yield self.within(turn_names, only))
            item: Code = yield self.within(turn_names, each)
            cost = item.cost + 1 + LIST_COST + 1
            when = None if only_if is None else (only_if.run, only_if.cost)
            return Code(looping.gather(run, shape, item.run, cost, when), over.cost + start.cost + 1)
        condition: Code = yield self.within(turn_names, node.condition)
        step: Code = yield self.within(turn_names, node.step)
        result: Code = yield self.within(loop_names, node.result)
        free = isinstance(node.condition, Const) and node.condition.value is True
        parts = looping.LoopParts(
            over=run,
            start=start.run,
            condition=None if free else condition.run,
            step=step.run,
            result=result.run,
            condition_cost=condition.cost,
            step_cost=step.cost,
        )
        return Code(looping.fold(parts, shape), over.cost + start.cost + result.cost)


def _name_of(node: Call) -> str:
    """The name of the function. Functions with a shared name are told apart by the type of their target."""
    target = node.target
    if target is not None and node.function == "ip":
        return "CIDR.ip"
    if target is not None and node.function == "sum" and target.type.kind == "list":
        return "sum.duration" if target.type.params[0].kind == "duration" else "sum"
    return node.function


def _native(code: Code) -> Code:
    """Code whose value is a CEL value, not part of the tree."""
    if code.decl is None:
        return code
    return Code(reading.converted(code.run, code.decl.convert), code.cost)


_READING = frozenset({"_[_]", "_[?_]", "_?._", "_?_:_"})


def _read(run: Run, cost: int, child: Decl) -> Code:
    """Code that reads the tree: scalars are converted at once, containers stay part of the tree."""
    if child.fields or child.item is not None or child.type.kind == "object":
        return Code(run, cost, child)
    return Code(run if child.convert is None else reading.converted(run, child.convert), cost)


def _applied(called: Callable[..., Any], runs: list[Run]) -> Run:
    if len(runs) == 1:
        (only,) = runs
        return lambda env: called(only(env))
    if len(runs) == 2:
        first, second = runs
        return lambda env: called(first(env), second(env))
    return lambda env: called(*[run(env) for run in runs])


def _compared(compare: Callable[[Any, Any], bool], runs: list[Run], nodes: list[Expr]) -> Run:
    """A comparison of scalars of known types, with Python's own operator."""
    first, second = runs
    if isinstance(nodes[1], Const):
        constant = nodes[1].value

        def with_bound(env: Env) -> bool:
            value = first(env)
            try:
                return compare(value, constant)
            except TypeError:  # the tree has null, or something else than its schema says
                raise no_overload() from None

        return with_bound

    def compared(env: Env) -> bool:
        a, b = first(env), second(env)
        try:
            return compare(a, b)
        except TypeError:
            raise no_overload() from None

    return compared


def _gathered(node: Fold) -> tuple[Expr | None, Expr] | None:
    """The predicate, if any, and the item of a loop that only makes a list."""
    step, only, accumulator = node.step, None, node.accumulator
    if not (isinstance(node.start, ListOf) and isinstance(node.condition, Const) and node.condition.value is True):
        return None
    if isinstance(step, Call) and step.function == "_?_:_" and _is(step.args[2], accumulator):
        only, step = step.args[0], step.args[1]
    if not (isinstance(step, Call) and step.function == "_+_" and _is(step.args[0], accumulator)):
        return None
    added = step.args[1]
    fits = isinstance(added, ListOf) and len(added.items) == 1 and not added.optional and _is(node.result, accumulator)
    return (only, added.items[0]) if fits and isinstance(added, ListOf) else None


def _is(node: Expr, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def _quantified(node: Fold) -> Expr | None:
    """The predicate of ``all`` and ``exists``, whose loop needs no accumulator."""
    step, condition = node.step, node.condition
    if not (isinstance(condition, Call) and condition.function == "@not_strictly_false"):
        return None
    if not (isinstance(step, Call) and step.function in ("_&&_", "_||_") and isinstance(node.result, Ident)):
        return None
    first = step.args[0]
    return step.args[1] if isinstance(first, Ident) and first.name == node.accumulator else None
