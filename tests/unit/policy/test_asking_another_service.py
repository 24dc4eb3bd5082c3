"""A service that decides by SubjectAccessReviews: what it is asked, what is remembered, and when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
from virtual_time import HastyLoop

from oarlock.meta.context import Target, User
from oarlock.meta.errors import InternalError
from oarlock.policy.authz.authorizer import AlwaysAllow, CannotDecide, Decision
from oarlock.policy.authz.union import AlwaysDeny, AuthorizerUnion
from oarlock.policy.authz.webhook import WebhookAuthorizer, WebhookRules, spec_of, target_of, user_of
from oarlock.schema.cel.problems import CompileError
from oarlock.server.authorization.configuration import ExpressionCondition
from oarlock.testing import VirtualClock

Tree = dict[str, Any]
ANN = User("ann", "7", ("dev",), {"scopes": ("view",)})
GET = Target("get", "apps", "v1", "deployments", "scale", "x", "web")
LISTS = Target("list", "", "v1", "pods", field_selector="spec.nodeName=n1,a!=b", label_selector="app in (a,b),!old,new")


def hasty(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test in a loop whose timers that are due next are due now."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=HastyLoop) as runner:
            runner.run(test(**fixtures))

    return run


class Service:
    """Answers with `status`, or with what `answer` makes of a question."""

    def __init__(self, answer: Callable[[Tree], Any] | None = None, **status: Any) -> None:
        self.asked: list[Tree] = []
        self.answer = answer or (lambda tree: {**tree, "status": status})

    async def __call__(self, tree: Tree) -> Any:
        self.asked.append(tree)
        made = self.answer(tree)
        return await made if isinstance(made, Awaitable) else made


def asking(service: Any, clock: VirtualClock | None = None, **rules: Any) -> WebhookAuthorizer:
    return WebhookAuthorizer(service, WebhookRules(**rules), clock or VirtualClock())


@hasty
async def test_what_is_asked() -> None:
    service = Service(allowed=True)
    authorizer = asking(service)
    for target in (GET, LISTS, Target("get", path="/metrics")):
        assert (await authorizer.decide(ANN, target)).allowed
    who = {"user": "ann", "groups": ["dev"], "extra": {"scopes": ["view"]}, "uid": "7"}
    assert service.asked[0] == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "resourceAttributes": {
                "namespace": "x",
                "verb": "get",
                "group": "apps",
                "version": "v1",
                "resource": "deployments",
                "subresource": "scale",
                "name": "web",
            },
            **who,
        },
    }
    attributes = service.asked[1]["spec"]["resourceAttributes"]
    assert attributes["fieldSelector"]["requirements"] == [
        {"key": "a", "operator": "NotIn", "values": ["b"]},
        {"key": "spec.nodeName", "operator": "In", "values": ["n1"]},
    ]
    assert {one["operator"] for one in attributes["labelSelector"]["requirements"]} == {"In", "DoesNotExist", "Exists"}
    assert service.asked[2]["spec"] == {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}, **who}


def test_a_question_survives_being_a_tree() -> None:
    for target in (GET, Target("get", path="/metrics")):
        assert target_of(spec_of(ANN, target)) == target
    assert user_of(spec_of(ANN, GET)) == ANN
    back = target_of(spec_of(ANN, LISTS))
    assert spec_of(ANN, back) == spec_of(ANN, LISTS)
    assert "labelSelector" not in spec_of(ANN, replace(LISTS, label_selector="(("))["resourceAttributes"]


@hasty
async def test_the_older_version_calls_groups_group() -> None:
    service = Service(allowed=True)
    await asking(service, version="v1beta1").decide(ANN, GET)
    assert service.asked[0]["apiVersion"] == "authorization.k8s.io/v1beta1"
    assert service.asked[0]["spec"]["group"] == ["dev"]
    assert "groups" not in service.asked[0]["spec"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"allowed": True, "reason": "r"}, Decision.allow()),
        ({"allowed": False, "reason": "r"}, Decision.no_opinion("r")),
        ({"allowed": False, "denied": True, "reason": "r"}, Decision.deny("r")),
        ({}, Decision.no_opinion()),
    ],
)
def test_what_an_answer_means(status: Tree, expected: Decision) -> None:
    decision = asyncio.run(asking(Service(**status)).decide(ANN, GET))
    assert decision.outcome is expected.outcome
    assert decision.allowed or decision == expected


@hasty
async def test_answers_are_remembered_for_a_while() -> None:
    clock = VirtualClock()
    for status, seconds in (({"allowed": True}, 300.0), ({"allowed": False}, 30.0), ({"denied": True}, 30.0)):
        service = Service(**status)
        authorizer = asking(service, clock)
        await authorizer.decide(ANN, GET)
        clock.advance(seconds - 1)
        await authorizer.decide(ANN, GET)
        assert len(service.asked) == 1
        await authorizer.decide(replace(ANN, extra={"scopes": ("edit",)}), GET)
        await authorizer.decide(ANN, replace(GET, label_selector="a=b"))
        assert len(service.asked) == 3, "everything that is asked counts"
        clock.advance(1)
        await authorizer.decide(ANN, GET)
        assert len(service.asked) == 4
    service = Service(allowed=True)
    authorizer = asking(service, authorized_s=0.0)
    await authorizer.decide(ANN, GET)
    await authorizer.decide(ANN, GET)
    assert len(service.asked) == 2


@hasty
async def test_what_is_remembered_is_bounded() -> None:
    authorizer = asking(Service(allowed=True, reason="r" * 100_000))
    for number in range(3000):
        await authorizer.decide(User(f"u{number}"), GET)
    assert len(authorizer._answers) <= 1024
    assert authorizer.remembered_bytes == sum(one.size for one in authorizer._answers.values()) <= 4 * 1024 * 1024
    small = asking(Service(allowed=True), limit_bytes=20_000)
    for number in range(100):
        await small.decide(User(f"u{number}" + "x" * 5000), GET)
        await small.decide(User(f"u{number}" + "x" * 20_000), GET)
    assert 0 < small.remembered_bytes <= 20_000


@hasty
async def test_the_same_question_is_asked_once_at_a_time() -> None:
    answered = asyncio.Event()

    async def later(tree: Tree) -> Any:
        await answered.wait()
        return {"status": {"allowed": True}}

    service = Service(later)
    authorizer = asking(service)
    waiting = [asyncio.ensure_future(authorizer.decide(ANN, GET)) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    answered.set()
    assert all([(await one).allowed for one in waiting[1:]])
    assert len(service.asked) == 1
    assert authorizer._calls == {}


async def hangs(tree: Tree) -> Any:
    await asyncio.Event().wait()


def crashes(tree: Tree) -> Any:
    raise ConnectionError("refused")


LIES: list[Any] = [
    None,
    [],
    {},
    {"status": None},
    {"status": {"allowed": "true"}},
    {"status": {"allowed": 1}},
    {"status": {"allowed": True, "denied": True}},
    {"status": {"allowed": True, "reason": 3}},
    {"kind": "Status", "status": {"allowed": True}},
    {"status": "Success"},
]


@pytest.mark.parametrize("answer", [hangs, crashes, *((lambda tree, lie=lie: lie) for lie in LIES)])
@hasty
async def test_a_service_that_fails_lets_nobody_in(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    loop, service = asyncio.get_running_loop(), Service(answer)
    began = loop.time()
    authorizer = asking(service)
    with pytest.raises(CannotDecide):
        await authorizer.decide(ANN, GET)
    assert loop.time() - began < 11
    assert "the authorizer webhook: " in caplog.text
    clock = VirtualClock()
    with pytest.raises(InternalError):
        await AuthorizerUnion([authorizer, AlwaysDeny()], clock).decide(ANN, GET)
    assert (await AuthorizerUnion([authorizer, AlwaysAllow()], clock).decide(ANN, GET)).allowed
    denying = asking(Service(answer), failure="Deny")
    refused = await AuthorizerUnion([denying, AlwaysAllow()], clock).decide(ANN, GET)
    assert (refused.allowed, refused.reason) == (False, "webhook, which decides, doesn't answer")
    assert len(service.asked) > 1, "a failure isn't remembered"


@hasty
async def test_who_asks_something_else_doesnt_wait_for_a_service_that_hangs() -> None:
    def answer(tree: Tree) -> Any:
        return hangs(tree) if tree["spec"]["user"] == "ann" else {"status": {"allowed": True}}

    authorizer = asking(Service(answer))
    slow = asyncio.ensure_future(authorizer.decide(ANN, GET))
    await asyncio.sleep(0)
    assert (await authorizer.decide(User("bob"), GET)).allowed
    assert not slow.done()
    slow.cancel()


@hasty
async def test_conditions_decide_whether_it_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(allowed=True)
    mine = ExpressionCondition("has(request.resourceAttributes) && request.resourceAttributes.namespace == 'x'")
    not_system = ExpressionCondition("!('system:serviceaccounts' in request.groups)")
    authorizer = asking(service, conditions=[mine, not_system])
    assert (await authorizer.decide(ANN, GET)).allowed
    for user, target in (
        (ANN, LISTS),
        (ANN, Target("get", path="/x")),
        (replace(ANN, groups=("system:serviceaccounts",)), GET),
    ):
        assert await authorizer.decide(user, target) == Decision.no_opinion()
    assert len(service.asked) == 1
    unclear = ExpressionCondition("request.resourceAttributes.namespace == 'x'")
    path = Target("get", path="/x")
    assert await asking(service, conditions=[unclear]).decide(ANN, path) == Decision.no_opinion()
    assert "a match condition can't be evaluated" in caplog.text
    denied = await asking(service, conditions=[unclear], failure="Deny").decide(ANN, path)
    assert denied == Decision.deny("a match condition of webhook failed")
    both = [unclear, ExpressionCondition("request.user == 'bob'")]
    assert await asking(service, conditions=both, failure="Deny").decide(ANN, path) == Decision.no_opinion()
    assert len(service.asked) == 1


@pytest.mark.parametrize("source", ["", "request.", "request.nothing == ''", "request.user", "object.x"])
def test_an_expression_that_is_no_condition(source: str) -> None:
    with pytest.raises((CompileError, ValueError)):
        ExpressionCondition(source)


@hasty
async def test_it_cannot_list_rules() -> None:
    known = await asking(Service()).rules(ANN, "x")
    assert (known.rules, known.incomplete) == ((), True)
