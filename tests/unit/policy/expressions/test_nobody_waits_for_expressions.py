"""Expressions that take long keep nobody else waiting, and end with their request."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from oarlock.meta.context import Context, Target, User
from oarlock.meta.errors import Timeout
from oarlock.policy.admission.expressions import (
    SLICE_COST,
    ExpressionRun,
    ExpressionRunner,
    ReviewedRequest,
    Scope,
    all_hold,
    compile_expression,
    variables_of,
)
from oarlock.schema.cel.expression import CALL_LIMIT
from oarlock.schema.cel.library.authz import Permission
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio

SCOPE = variables_of(Scope())
ITEMS = list(range(200))
SHORT = "object.items.all(a, a >= 0)"
LONG = "object.items.all(a, object.items.all(b, a + b >= 0))"
ENDLESS = "object.items.all(a, object.items.all(b, object.items.all(c, a + b + c >= 0)))"


def request() -> ReviewedRequest:
    return ReviewedRequest(Context(User("ann"), Target("create", resource="configmaps"), VirtualClock()))


class Asked:
    """Answers what is asked, and remembers it."""

    def __init__(self) -> None:
        self.questions: list[Target] = []

    async def __call__(self, user: User, target: Target) -> Permission:
        self.questions.append(target)
        return Permission(target.verb == "get")


def conditions(about: ReviewedRequest, *sources: str) -> tuple[Any, ExpressionRun]:
    compiled = [compile_expression(one, "", SCOPE) for one in sources]
    values = {"object": {"items": ITEMS}, "oldObject": None, "request": {}, "namespaceObject": None}
    run = ExpressionRun({**values, **about.authorizers("a")})
    return all_hold(compiled, run), run


async def turns_of_others(work: Any) -> tuple[Any, int]:
    """What `work` results in, and how often another task had a turn meanwhile."""
    task = asyncio.ensure_future(work)
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    return await task, turns


async def test_what_is_short_is_done_at_once() -> None:
    about = request()
    evaluation, run = conditions(about, SHORT)
    with pytest.raises(StopIteration) as ended:
        ExpressionRunner(Asked()).result(evaluation, run, about).send(None)
    assert ended.value.value is True


async def test_others_have_turns_between_expressions() -> None:
    about = request()
    evaluation, run = conditions(about, *[SHORT] * 20)
    holds, turns = await turns_of_others(ExpressionRunner(Asked()).result(evaluation, run, about))
    assert holds
    assert run.spent > 5 * SLICE_COST
    assert turns >= 5


async def test_several_short_evaluations_of_a_request_give_way_too() -> None:
    runner, about = ExpressionRunner(Asked()), request()

    async def many() -> None:
        for _ in range(20):
            assert await runner.result(*conditions(about, SHORT), about)

    _, turns = await turns_of_others(many())
    assert turns >= 5


async def test_an_expression_that_needs_more_than_a_slice_has_the_same_result() -> None:
    about = request()
    evaluation, run = conditions(about, LONG, SHORT)
    assert await ExpressionRunner(Asked()).result(evaluation, run, about)
    assert run.spent > 10 * SLICE_COST


async def test_what_was_given_up_ends() -> None:
    runner, about = ExpressionRunner(Asked()), request()
    evaluation, run = conditions(about, ENDLESS)
    task = asyncio.ensure_future(runner.result(evaluation, run, about))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await runner.result(*conditions(about, LONG), about)  # in the same thread, so the other has ended
    assert run.spent < CALL_LIMIT


async def test_permissions_are_found_out() -> None:
    asked, about = Asked(), request()
    may = "authorizer.group('').resource('pods').namespace('x').check('get').allowed()"
    own = "!authorizer.requestResource.check('breakglass').allowed()"
    assert await ExpressionRunner(asked).result(*conditions(about, may, own, may), about)
    assert [(one.verb, one.resource, one.name) for one in asked.questions] == [
        ("get", "pods", ""),
        ("breakglass", "configmaps", "a"),
    ]


async def test_the_deadline_of_the_request_counts() -> None:
    about = request()
    about.ctx = msgspec.structs.replace(about.ctx, deadline=about.ctx.clock.monotonic() - 1)
    with pytest.raises(Timeout):
        await ExpressionRunner(Asked()).result(*conditions(about, *[SHORT] * 20), about)
