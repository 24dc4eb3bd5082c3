"""`ExpressionRunner`: runs evaluations so that nobody else waits for them, and asks who may do what.

An evaluation gets a slice of `SLICE_COST` on the event loop, then others have a turn. An expression that needs more
than a slice is run in a thread, the only one, so that most of the processor stays the event loop's; when the request is
given up, or its time is up, it is stopped. See also: `running`; decision 0049.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, Generic, TypeVar

from oarlock.meta.context import Context, Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Timeout
from oarlock.policy.admission.expressions.conditions import Evaluation, ExpressionRun
from oarlock.policy.admission.expressions.environment import AUTHORIZER, AUTHORIZER_OF_REQUEST
from oarlock.registry.workers import Offload, at_once, ensure_task
from oarlock.schema.cel.compiling import Interruption
from oarlock.schema.cel.expression import CALL_LIMIT
from oarlock.schema.cel.library.authz import Permission, Permissions, ResourceCheck, Unanswered, UserAuthorizer

T = TypeVar("T")

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
