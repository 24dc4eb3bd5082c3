"""Loops, to which macros are compiled.

``all``, ``exists``, ``map`` and ``filter`` have forms without an accumulator, because most loops in rules are these.
The cost of an iteration is charged before it runs, so no loop exceeds its budget. See also: `compiling`.
Source: cel-spec "Macros"; the costs are those of the loops cel-go runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel.problems import EvalError
from oarlock.schema.cel.reading import Env, Run, over_budget
from oarlock.schema.cel.values import Obj, from_key, no_overload


@dataclass(frozen=True, slots=True)
class LoopSlots:
    """The slots of a loop: key or item, value (-1 for none), accumulator. `convert` makes a value of an item."""

    first: int
    second: int
    accumulator: int
    convert: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParts:
    """The parts of a loop. Without `condition` it runs to the end."""

    over: Run
    start: Run
    condition: Run | None
    step: Run
    result: Run
    condition_cost: int
    step_cost: int


def _sequence(container: Any, shape: LoopSlots) -> list[Any]:
    """The values of the first variable in a loop with one variable."""
    convert = shape.convert
    if isinstance(container, list):
        return container if convert is None else [convert(item) for item in container]
    if type(container) is Obj:
        return [name for name, raw in container.shown.items() if container.get(raw) is not None]
    if isinstance(container, dict):
        return [key if type(key) is str else from_key(key) for key in container]
    raise no_overload()


def _pairs(container: Any, shape: LoopSlots) -> Iterable[tuple[Any, Any]]:
    convert = shape.convert
    if isinstance(container, list):
        return enumerate(container) if convert is None else [(i, convert(item)) for i, item in enumerate(container)]
    if type(container) is Obj:
        return [(name, container[raw]) for name, raw in container.shown.items() if container.get(raw) is not None]
    if isinstance(container, dict):
        return [(from_key(key), value if convert is None else convert(value)) for key, value in container.items()]
    raise no_overload()


def fold(parts: LoopParts, shape: LoopSlots) -> Run:
    """The general loop."""
    over, start, condition, step, result = parts.over, parts.start, parts.condition, parts.step, parts.result
    first, second, accumulator = shape.first, shape.second, shape.accumulator
    condition_cost, step_cost = parts.condition_cost, parts.step_cost

    def loop(env: Env) -> Any:
        container = over(env)
        env[accumulator] = start(env)
        for item in _sequence(container, shape) if second < 0 else _pairs(container, shape):
            if second < 0:
                env[first] = item
            else:
                env[first], env[second] = item
            if condition is not None:
                env[0] += condition_cost
                if condition(env) is not True:
                    break
            env[0] += step_cost
            if env[0] > env[1]:
                raise over_budget()
            env[accumulator] = step(env)
        return result(env)

    return loop


def gather(over: Run, shape: LoopSlots, item: Run, cost: int, only: tuple[Run, int] | None) -> Run:
    """``map``, or ``filter`` with `only`, a predicate and its cost. Builds the list directly."""
    first, second = shape.first, shape.second
    predicate, asking = only or (None, 0)
    turn = cost if predicate is None else asking

    def gathered(env: Env) -> list[Any]:
        container = over(env)
        result = []
        for each in _sequence(container, shape) if second < 0 else _pairs(container, shape):
            if second < 0:
                env[first] = each
            else:
                env[first], env[second] = each
            env[0] += turn
            if env[0] > env[1]:
                raise over_budget()
            if predicate is not None:
                chosen = predicate(env)
                if chosen is False:
                    env[0] += 1  # the accumulator, as it was
                    continue
                if chosen is not True:
                    raise no_overload()
                env[0] += cost
            result.append(item(env))
        return result

    return gathered


def quantifier(over: Run, shape: LoopSlots, predicate: Run, cost: int, *, every: bool) -> Run:
    """``all`` with `every`, else ``exists``."""
    first, second = shape.first, shape.second
    asking = 2 if every else 3  # is it decided? the accumulator, `!` and the call that asks
    turn = asking + 1 + cost
    undecided = every

    def slowly(env: Env, items: list[Any]) -> bool:
        """The path for errors, and for the end of the budget."""
        error: EvalError | None = None
        for at, item in enumerate(items):
            if second < 0:
                env[first] = item
            else:
                env[first], env[second] = item
            env[0] += turn
            if env[0] > env[1]:
                raise over_budget()
            try:
                value = predicate(env)
            except EvalError as fault:
                error = error or fault
                continue
            if value is not undecided:
                if type(value) is not bool:
                    raise no_overload()
                if at + 1 < len(items):
                    env[0] += asking
                return value
        if error is not None:
            raise error
        return undecided

    def quantified(env: Env) -> bool:
        container = over(env)
        items = _sequence(container, shape) if second < 0 else list(_pairs(container, shape))
        if env[0] + turn * len(items) > env[1] or second >= 0:
            return slowly(env, items)
        turns, value = 0, undecided
        try:
            for item in items:
                env[first] = item
                value = predicate(env)
                if value is not undecided:
                    break
                turns += 1
            else:
                env[0] += turn * len(items)
                return undecided
        except EvalError:
            env[0] += turn * turns
            return slowly(env, items[turns:])
        if type(value) is not bool:
            raise no_overload()
        env[0] += turn * (turns + 1) + (asking if turns + 1 < len(items) else 0)
        return value

    return quantified
