"""Compiles one expression: all that rules need of the language.

See also: `parsing`, `checker`, `compiling`, the three steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, Required
from oarlock.schema.cel import types
from oarlock.schema.cel.checker import MessageTypes, check
from oarlock.schema.cel.compiling import Program, compile_program
from oarlock.schema.cel.declared import Decl, declare
from oarlock.schema.cel.problems import CelError, CompileError, EvalError, OverBudget
from oarlock.schema.cel.syntax.ast import Call, Expr, Fold, Ident, ListOf, MapOf, Select
from oarlock.schema.cel.syntax.parsing import parse
from oarlock.schema.cel.types import CelType
from oarlock.schema.cel.values import NONE, Optional
from oarlock.schema.definition import Schema
from oarlock.schema.structural import nodes


@dataclass(frozen=True, slots=True)
class DeclaredVariable:
    """A variable of an expression. With `decl` its value is a part of a tree, else a CEL value."""

    type: CelType
    decl: Decl | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """An expression that has passed the type checker."""

    source: str
    tree: Expr
    variables: Mapping[str, DeclaredVariable]

    @property
    def type(self) -> CelType:
        """The type of the result."""
        return self.tree.type

    def program(self) -> Program:
        """The compiled program. CompileError for an expression that always fails."""
        try:
            return compile_program(
                self.tree, self.source, {name: variable.decl for name, variable in self.variables.items()}
            )
        except RecursionError as error:
            raise _too_deep() from error


def check_text(source: str, variables: Mapping[str, DeclaredVariable], messages: MessageTypes | None = None) -> Checked:
    """Parse and check. `messages` are those that it may make. CompileError with line, column and a caret."""
    try:
        known = {name: variable.type for name, variable in variables.items()}
        tree = check(parse(source), source, known, messages=messages)
    except RecursionError as error:
        raise _too_deep() from error
    return Checked(source, tree, variables)


def _too_deep() -> CompileError:
    # parsing and checking don't recurse, but types and literals do, and the caller may be deep in the stack already
    return CompileError("ERROR: <input>:1:1: the expression nests too deeply")


CALL_LIMIT = 1_000_000
"""What one evaluation of one expression may cost."""

OBJECT_BUDGET = 10_000_000
"""What all rules of one object may cost, or all validations of a policy."""

CONDITION_BUDGET = 2_500_000
"""What the match conditions of one webhook, policy or authorizer may cost together."""

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
"""The message when there is nothing left to spend."""

MAX_MESSAGE = 5120
"""Characters of a message that an expression makes."""

GONE = object()
"""There is no old value."""


class InvalidHere(Invalid):
    """An invalid value that isn't shown in the message, because it is an object or a list."""

    __slots__ = ()

    @property
    def body(self) -> str:
        return f"Invalid value: {self.detail}"


@dataclass(slots=True)
class Budget:
    """The cost limits of all rules of an object together, and of each evaluation."""

    left: int
    per_call: int
    exhausted: bool = False

    @property
    def limit(self) -> int:
        return min(self.per_call, self.left)

    def charge(self, cost: int) -> bool:
        """Charge the total. Returns False when it is exceeded; then no more rules run."""
        if cost > self.left:
            self.stop()
            return False
        self.left -= cost
        return True

    def stop(self) -> None:
        self.left = -1
        self.exhausted = True


def variables_at(decl: Decl, *, optional_old: bool) -> dict[str, DeclaredVariable]:
    """The variables of a rule at `decl`."""
    old = DeclaredVariable(types.optional_of(decl.type)) if optional_old else DeclaredVariable(decl.type, decl)
    return {"self": DeclaredVariable(decl.type, decl), "oldSelf": old}


def mentions(tree: Expr, name: str) -> bool:
    """Whether an expression uses a variable."""
    match tree:
        case Ident():
            return tree.name == name
        case Select():
            return mentions(tree.operand, name)
        case Call():
            return any(mentions(part, name) for part in ([tree.target] if tree.target else []) + tree.args)
        case ListOf():
            return any(mentions(item, name) for item in tree.items)
        case MapOf():
            return any(mentions(key, name) or mentions(value, name) for key, value, _ in tree.entries)
        case Fold():
            parts = (tree.over, tree.start, tree.condition, tree.step, tree.result)
            return any(mentions(part, name) for part in parts)
    return False


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A compiled rule. `field_path` is normalized; `shows_value`: its errors show the value."""

    program: Program
    decl: Decl
    source: str
    message: str
    message_program: Program | None
    reason: str
    field_path: str
    uses_old: bool
    optional_old: bool
    shows_value: bool

    def broken(self, path: str, value: Any, old: Any, budget: Budget) -> tuple[FieldError | None, bool]:
        """The error of this rule for a value, if any, and whether ratcheting may ignore it."""
        if self.uses_old and old is GONE and not self.optional_old:
            return None, False
        values = (value, self._old(old))
        place = path or "<nil>"
        try:
            result, cost = self.program.run(values, budget.limit)
        except OverBudget as stopped:
            text = OUT_OF_BUDGET
            if budget.per_call <= budget.left:
                text = (
                    f"'{stopped}': no further validation rules will be run due to call cost exceeds limit for rule: "
                    f"{self.named}"
                )
            budget.stop()
            return self._failed(place, text), False
        except EvalError as error:
            if not budget.charge(error.cost):
                return self._failed(place, OUT_OF_BUDGET), False
            return self._failed(place, self._explained(str(error))), False
        if not budget.charge(cost):
            return self._failed(place, OUT_OF_BUDGET), False
        if result is True:
            return None, False
        where = place
        if self.field_path:
            where = f"{path}.{self.field_path}" if path and self.field_path[0] != "[" else path + self.field_path
        return self._worded(where, value, self._text(values, budget)), not self.uses_old

    def _old(self, old: Any) -> Any:
        if not self.optional_old:
            return None if old is GONE else old
        if old is GONE or old is None:
            return NONE
        return Optional(True, old if self.decl.convert is None else self.decl.convert(old))

    @property
    def named(self) -> str:
        return (self.message or self.source).strip()

    def _explained(self, error: str) -> str:
        if error.startswith("no such overload"):
            what = "call arguments did not match a supported operator, function or macro signature for rule"
            return f"'{error}': {what}: {self.named}"
        return f"{error} evaluating rule: {self.named}"

    def _text(self, values: tuple[Any, ...], budget: Budget) -> str:
        """The error message: of the messageExpression if that works, else the message, else the rule."""
        otherwise = self.message.strip() or f"failed rule: {self.source.strip()}"
        if self.message_program is None:
            return otherwise
        try:
            text, cost = self.message_program.run(values, budget.limit)
        except OverBudget:
            call = budget.per_call <= budget.left
            budget.stop()
            if call:
                return "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            return "messageExpression evaluation failed due to running out of cost budget"
        except EvalError as error:
            budget.charge(error.cost)
            return otherwise
        if not budget.charge(cost):
            return "messageExpression evaluation failed due to running out of cost budget"
        if type(text) is not str or not text.strip() or "\n" in text.strip() or len(text.strip()) > MAX_MESSAGE:
            return otherwise
        return text.strip()

    def _failed(self, path: str, text: str) -> FieldError:
        """The error of a rule that didn't come to a result: about the type, as Kubernetes tells it."""
        return Invalid(path, self.decl.node.type, text)

    def _invalid(self, path: str, value: Any, text: str) -> FieldError:
        return Invalid(path, value, text) if self.shows_value else InvalidHere(path, value, text)

    def _worded(self, path: str, value: Any, text: str) -> FieldError:
        if self.reason == "FieldValueForbidden":
            return Forbidden(path, text)
        if self.reason == "FieldValueRequired":
            return Required(path, text)
        if self.reason == "FieldValueDuplicate":
            return _DuplicateHere(path, value, text)
        if self.field_path:
            return InvalidHere(path, value, text)
        return self._invalid(path, value, text)


class _DuplicateHere(Duplicate):
    __slots__ = ()

    @property
    def body(self) -> str:
        return f"Duplicate value: {self.detail}" if isinstance(self.value, dict | list) else super().body


def computed(expression: str, schema: Schema) -> Callable[[Any], Any]:
    """A function that computes `expression` with ``self``, an object of this schema; None where it can't be computed.

    Raises ValueError.
    """
    decl = declare(nodes.parse(schema), root=True)
    if decl is None:
        raise ValueError("nothing is known of the object")
    try:
        program = check_text(expression, {"self": DeclaredVariable(decl.type, decl)}).program()
    except CompileError as error:
        raise ValueError(str(error)) from error

    def compute(tree: Any) -> Any:
        try:
            value, _ = program.run((tree,), CALL_LIMIT)
        except CelError:
            return None
        return value

    return compute
