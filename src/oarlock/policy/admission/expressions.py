"""Expressions in CEL about a request: of policies, and of the conditions of webhooks. One engine for both.

Objects have no types here: an expression may be about several kinds. Programs are made once (`compile_expression`) and
run on one request in pieces (`ExpressionRun`). Only an `ExpressionRunner` waits: it finds out who may do what, and
resumes evaluations so that nobody else waits for them. An evaluation gets a slice of `SLICE_COST` on the event loop,
then others have a turn. An expression that needs more than a slice is run in a thread, the only one, so that most of
the processor stays the event loop's; when the request is given up, or its time is up, it is stopped (decision 0049).
Must not know: policies, webhooks, HTTP. Source: k8s.io/apiserver ``admission/plugin/cel``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from typing import Any, Generic, TypeVar

from oarlock.meta.context import Context, Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Timeout
from oarlock.registry.workers import Offload, at_once, ensure_task
from oarlock.schema.cel import types
from oarlock.schema.cel.checker import MessageTypes
from oarlock.schema.cel.compiling import Interruption, Program
from oarlock.schema.cel.declared import USER, Decl, declare
from oarlock.schema.cel.expression import (
    CALL_LIMIT,
    CONDITION_BUDGET,
    OBJECT_BUDGET,
    OUT_OF_BUDGET,
    Checked,
    DeclaredVariable,
    check_text,
    mentions,
)
from oarlock.schema.cel.library.authz import Permission, Permissions, ResourceCheck, Unanswered, UserAuthorizer
from oarlock.schema.cel.problems import CelError, CompileError, EvalError, OverBudget
from oarlock.schema.cel.types import CelType
from oarlock.schema.structural.nodes import Node

AUTHORIZER = "authorizer"
COMPOSED = "variables"
AUTHORIZER_OF_REQUEST = "authorizer.requestResource"

_PLAIN = frozenset(("null", "bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"))

NAMES = (
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "params",
    AUTHORIZER,
    AUTHORIZER_OF_REQUEST,
    COMPOSED,
)
"""In the order in which programs take their values; each takes those that it has."""

_TEXT = Node(type="string")
_NUMBER = Node(type="integer")
_YES = Node(type="boolean")
_TEXTS = Node(type="array", items=_TEXT)


def _object(**fields: Node) -> Node:
    return Node(type="object", properties=fields)


def _named(**fields: str) -> Node:
    return Node(type="object", properties=dict.fromkeys(fields.values(), _TEXT))


_KIND = _named(group="group", version="version", kind="kind")
_RESOURCE = _named(group="group", version="version", resource="resource")
_REQUEST = _object(
    uid=_TEXT,
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=USER,
    dryRun=_YES,
)
_NAMESPACE = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=Node(type="object", additional=_TEXT),
        annotations=Node(type="object", additional=_TEXT),
        UID=_TEXT,
        creationTimestamp=Node(type="string", format="date-time"),
        deletionGracePeriodSeconds=_NUMBER,
        deletionTimestamp=Node(type="string", format="date-time"),
        generation=_NUMBER,
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(phase=_TEXT),
)


def _declared(node: Node, name: str) -> Decl:
    decl = declare(node, path="")
    assert decl is not None
    decl.type.name = name
    return decl


def _request() -> Decl:
    decl = _declared(_REQUEST, "kubernetes.AdmissionRequest")
    decl.fields["options"] = ("options", Decl(types.DYN, Node()))
    return decl


_ANY = DeclaredVariable(types.DYN)
_BASE: dict[str, DeclaredVariable] = {"object": _ANY, "oldObject": _ANY}
_request_decl = _request()
_BASE["request"] = DeclaredVariable(_request_decl.type, _request_decl)
_namespace_decl = _declared(_NAMESPACE, "kubernetes.Namespace")
_BASE["namespaceObject"] = DeclaredVariable(_namespace_decl.type, _namespace_decl)
_ASKS = {
    AUTHORIZER: DeclaredVariable(types.opaque("kubernetes.authorization.Authorizer")),
    AUTHORIZER_OF_REQUEST: DeclaredVariable(types.opaque("kubernetes.authorization.ResourceCheck")),
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may name besides the objects and the request."""

    params: bool = False
    authorizer: bool = True


def variables_of(scope: Scope, objects: Mapping[str, DeclaredVariable] | None = None) -> dict[str, DeclaredVariable]:
    """The variables of an expression. `objects` are those whose types are known, to check an expression by them."""
    made = {**_BASE, **(objects or {})}
    if scope.params:
        made.setdefault("params", _ANY)
    if scope.authorizer:
        made.update(_ASKS)
    return made


def composed_type(kind: CelType) -> CelType:
    """The type of a composed variable whose expression has the type `kind`: objects are ``dyn``, as in Kubernetes.

    So are optional values, and what asks about permissions.
    """
    if kind.kind == "list":
        return types.list_of(composed_type(kind.params[0]))
    if kind.kind == "map":
        return types.map_of(*map(composed_type, kind.params))
    return kind if kind.kind in _PLAIN else types.DYN


def with_variables(known: Mapping[str, DeclaredVariable], own: Mapping[str, CelType]) -> dict[str, DeclaredVariable]:
    """The same, with the variables that a policy has defined so far, by name."""
    decl = Decl(CelType("object", (), "kubernetes.variables"), Node(type="object"), computed=True)
    decl.type.node = decl
    decl.fields = {name: (name, Decl(type_, Node())) for name, type_ in own.items()}
    return {**known, COMPOSED: DeclaredVariable(decl.type, decl)}


BOOL, STRING, ANNOTATION = ("bool",), ("string",), ("string", "null_type")
"""The types that a result may have: of a condition, of a message, of the value of an audit annotation."""

MAX_EXPRESSION = 16 * 1024
"""Characters of an expression that is compiled; Kubernetes' bound of a rule in a CustomResourceDefinition."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the expression at a path."""

    path: str
    expression: str
    text: str


class FaultyExpression(Exception):
    """An expression can't be used. `detail` is what the compiler says, if it was the compiler."""

    def __init__(self, path: str, expression: str, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.fault = Fault(path, expression, text)
        self.detail = detail or text


class _FailingProgram:
    """Stands for the program of a stored expression that isn't valid here, as one that another server has written."""

    __slots__ = ("_why",)

    def __init__(self, why: str) -> None:
        self._why = why

    def run(self, values: tuple[Any, ...], limit: int, interruption: Interruption | None = None) -> tuple[Any, int]:
        """Raises EvalError."""
        raise EvalError(self._why)


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """An expression, its program, and the names of the variables that the program takes, in order."""

    source: str
    program: Program | _FailingProgram
    names: tuple[str, ...]
    path: str = ""


def unusable_expression(fault: Fault) -> CompiledExpression:
    """An expression that always fails, with the text of its fault."""
    return CompiledExpression(fault.expression, _FailingProgram(fault.text), (), fault.path)


def compile_expression(
    source: str, path: str, scope: Mapping[str, DeclaredVariable], results: tuple[str, ...] = BOOL
) -> CompiledExpression:
    """Compile an expression that may name what is in `scope`, and whose type is one of `results`.

    Raises FaultyExpression, which names `path`.
    """
    checked = check_expression(source, path, scope)
    kind = {"null": "null_type"}.get(checked.type.kind, checked.type.kind)
    if kind not in results:
        wanted = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
        text = f"must evaluate to {wanted} but got {checked.type if kind != 'null_type' else kind}"
        raise FaultyExpression(path, source, text)
    return program_of(checked, path)


def check_expression(
    source: str, path: str, scope: Mapping[str, DeclaredVariable], messages: MessageTypes | None = None
) -> Checked:
    """Parse an expression and check its types; it may make `messages`. Raises FaultyExpression."""
    if len(source) > MAX_EXPRESSION:
        text = f"compilation failed: it has more than {MAX_EXPRESSION} characters"
        raise FaultyExpression(path, source[:64], text)
    try:
        checked = check_text(source, {name: scope[name] for name in NAMES if name in scope}, messages)
    except CompileError as error:
        raise FaultyExpression(path, source, f"compilation failed: {error}", str(error)) from error
    try:
        used = {name: variable for name, variable in checked.variables.items() if mentions(checked.tree, name)}
    except RecursionError:
        return checked
    return replace(checked, variables=used)


def program_of(checked: Checked, path: str) -> CompiledExpression:
    """The program of an expression of any type. Raises FaultyExpression."""
    try:
        return CompiledExpression(checked.source, checked.program(), tuple(checked.variables), path)
    except CompileError as error:
        raise FaultyExpression(path, checked.source, f"compilation failed: {error}", str(error)) from error


T = TypeVar("T")

Evaluation = Generator[Unanswered | None, None, T]
"""What is run, in pieces."""


class BudgetSpent(Exception):
    """The budget of a policy's or webhook's expressions is spent. No error of an expression: none can catch it."""


class _SliceSpent(Exception):
    """An expression, or a variable that it uses, needs more than is left of the slice."""


class ExpressionRun:
    """Runs expressions with `values`, the values of their variables by name.

    `composed` are variables that are expressions themselves, each computed when it is first used.
    """

    def __init__(self, values: Mapping[str, Any], composed: Mapping[str, CompiledExpression] | None = None) -> None:
        self._values = values
        self._composed = composed or {}
        self._made: dict[str, tuple[Any, EvalError | None]] = {}
        self._making: set[str] = set()
        self._left = OBJECT_BUDGET
        self._slice = 0
        self.spent = 0
        """What all expressions have cost."""
        self.finished = 0
        """How many expressions have been run."""
        self.interruption: Interruption | None = None
        """Stops the expression that is running from elsewhere, if there is one."""

    def begin(self, budget: int) -> None:
        """What runs from now on may cost `budget` together."""
        self._left = budget

    def begin_slice(self, cost: int) -> None:
        """Until the evaluation next yields, expressions may cost so much."""
        self._slice = cost

    def value(self, expression: CompiledExpression) -> Evaluation[Any]:
        """The value of an expression. Raises CelError, and `BudgetSpent`."""
        while True:
            try:
                value = self._run(expression)
            except Unanswered as question:
                yield question
            except _SliceSpent:
                yield None
            except CelError:
                self.finished += 1
                raise
            else:
                self.finished += 1
                return value

    def value_of(self, name: str) -> Any:
        """The value of a composed variable, for expressions that use it. Raises EvalError."""
        if name not in self._made:
            if name in self._making:
                raise EvalError(f"variable {name} needs itself")
            self._making.add(name)
            try:
                self._made[name] = (self._run(self._composed[name]), None)
            except CelError as error:
                text = f'composited variable "{name}" fails to evaluate: {error}'
                self._made[name] = (None, EvalError(text))
            finally:
                self._making.discard(name)
        value, wrong = self._made[name]
        if wrong is not None:
            raise EvalError(str(wrong))
        return value

    def _run(self, expression: CompiledExpression) -> Any:
        if self._slice <= 0:
            raise _SliceSpent
        limit = min(CALL_LIMIT, self._slice)
        values = tuple([self if name == COMPOSED else self._values[name] for name in expression.names])
        try:
            value, cost = expression.program.run(values, limit, self.interruption)
        except OverBudget as error:
            if limit < CALL_LIMIT:
                raise _SliceSpent from None
            self._charge(min(error.cost, CALL_LIMIT))
            raise
        except CelError as error:
            self._charge(min(error.cost, CALL_LIMIT))
            raise
        self._charge(cost)
        return value

    def _charge(self, cost: int) -> None:
        self.spent += cost
        self._slice -= cost
        self._left -= cost
        if self._left < 0:
            raise BudgetSpent


class UndecidedConditions(Exception):
    """Whether the conditions hold can't be evaluated. The text says which failed, and why."""


def all_hold(conditions: Sequence[CompiledExpression], run: ExpressionRun) -> Evaluation[bool]:
    """Whether all conditions hold. One that doesn't decides, whatever others fail with. Raises UndecidedConditions."""
    run.begin(CONDITION_BUDGET)
    failures: list[str] = []
    for condition in conditions:
        try:
            holds = yield from run.value(condition)
        except BudgetSpent:
            failures.append(OUT_OF_BUDGET)
            break
        except CelError as error:
            failures.append(failure_message(condition, error))
            continue
        if holds is not True:
            return False
    if failures:
        once = [*dict.fromkeys(failures)]
        raise UndecidedConditions(once[0] if len(once) == 1 else f"[{', '.join(once)}]")
    return True


def failure_message(expression: CompiledExpression, error: CelError) -> str:
    """The error message for an expression that failed."""
    return f"expression '{expression.source}' resulted in error: {error}"


DecidePermission = Callable[[User, Target], Awaitable[Permission]]
"""Finds out whether a user may do something. Raises nothing: what can't be found out is a Permission with an error."""

SLICE_COST = 2_000
"""What an evaluation may cost before others have a turn: some milliseconds of what takes longest for its cost."""


@dataclass(slots=True)
class ReviewedRequest:
    """The state that all expressions about one request share: results, and cost since the loop's last turn.

    `offload` is that of the request: expressions about a large object run in a worker thread from the start.
    """

    ctx: Context
    offload: Offload = at_once
    answers: Permissions = field(default_factory=Permissions)
    cost: int = 0

    def authorizers(self, name: str) -> dict[str, Any]:
        """The values of the variables that ask what the user may do. `name` is that of the object, if it has one."""
        target, authorizer = self.ctx.target, UserAuthorizer(self.ctx.user, self.answers)
        own = Target("", target.group, "*", target.resource, target.subresource, target.namespace, name)
        return {AUTHORIZER: authorizer, AUTHORIZER_OF_REQUEST: ResourceCheck(authorizer, own)}


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    """The result of an evaluation, which can't be passed from a thread as StopIteration."""

    result: T


class ExpressionRunner:
    """Evaluates the admission expressions of one server. `decide` asks that server's authorizer."""

    def __init__(self, decide: DecidePermission) -> None:
        self._decide = decide
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="oarlock-expressions")

    async def result(self, evaluation: Evaluation[T], run: ExpressionRun, request: ReviewedRequest) -> T:
        """The result of an evaluation that uses `run`. Raises what it raises, and Timeout at the request's deadline."""
        ctx = request.ctx
        while True:
            spent, finished = run.spent, run.finished
            run.begin_slice(SLICE_COST)
            outcome: Unanswered | _Done[T] | None = await request.offload(_resumed, evaluation)
            request.cost += run.spent - spent
            if outcome is None and run.finished == finished:
                outcome = await self._in_thread(evaluation, run)
            if isinstance(outcome, _Done):
                if request.cost > SLICE_COST:
                    await _give_way(request)
                return outcome.result
            await _give_way(request)
            if outcome is not None:
                answer = await self._decide(outcome.user, outcome.question.target)
                request.answers.known[outcome.question] = answer
            if ctx.clock.monotonic() > ctx.deadline:
                raise Timeout("the request's expressions weren't evaluated in time")

    async def _in_thread(self, evaluation: Evaluation[T], run: ExpressionRun) -> Unanswered | _Done[T] | None:
        """Resume an evaluation for one expression, whatever it costs."""
        await ensure_task()
        run.begin_slice(CALL_LIMIT)
        run.interruption = interruption = Interruption()
        work = asyncio.get_running_loop().run_in_executor(self._thread, _resumed, evaluation)
        try:
            outcome = await work
        except asyncio.CancelledError:
            interruption.stop()
            raise
        run.interruption = None
        return outcome


def _resumed(evaluation: Evaluation[T]) -> Unanswered | _Done[T] | None:
    try:
        return next(evaluation)
    except StopIteration as done:
        return _Done(done.value)


async def _give_way(request: ReviewedRequest) -> None:
    await ensure_task()
    await asyncio.sleep(0)
    request.cost = 0
