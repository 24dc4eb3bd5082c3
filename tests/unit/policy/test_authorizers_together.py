"""Several authorizers: the first that allows or denies decides, and one that fails lets nobody in."""

from __future__ import annotations

import logging

import pytest

from oarlock.meta.context import Target, User
from oarlock.meta.errors import InternalError, TooManyRequests
from oarlock.policy.authz.authorizer import AlwaysAllow, Authorizer, Decision
from oarlock.policy.authz.union import AllowedPaths, AlwaysDeny, AuthorizerUnion
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio

ANN, ROOT = User("ann"), User("root", groups=("system:masters",))
PODS = Target("get", "", "v1", "pods")


class Says(Authorizer):
    waits = False

    def __init__(self, decision: object) -> None:
        self.decision = decision
        self.asked = 0

    async def decide(self, user: User, target: Target) -> Decision:
        self.asked += 1
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision  # type: ignore[return-value]  # some of these lie


def union(*members: Authorizer) -> AuthorizerUnion:
    return AuthorizerUnion(members, VirtualClock())


async def test_the_first_opinion_counts() -> None:
    silent, no, yes = Says(Decision.no_opinion("s")), Says(Decision.deny("never")), Says(Decision.allow())
    assert (await union(silent, no, yes).decide(ANN, PODS)) == Decision.deny("never")
    assert yes.asked == 0
    assert (await union(silent, yes, no).decide(ANN, PODS)).allowed


class Knows(Says):
    """Decides from memory. It has both ways, since one that was inherited wouldn't say what the other does."""

    async def decide(self, user: User, target: Target) -> Decision:
        return await super().decide(user, target)

    def authorize_cached(self, user: User, target: Target) -> Decision | None:
        return self.decision  # type: ignore[return-value]


async def test_from_memory_too_the_first_opinion_counts() -> None:
    silent, no, yes = Knows(Decision.no_opinion("s")), Knows(Decision.deny("never")), Knows(Decision.allow())
    assert union(silent, yes, no).authorize_cached(ANN, PODS) == Decision.allow()
    assert union(silent, no, yes).authorize_cached(ANN, PODS) is None, "decide says why"
    assert union(Says(Decision.deny()), yes).authorize_cached(ANN, PODS) is None, "one that must be asked comes first"
    assert union(Knows(None), yes).authorize_cached(ANN, PODS) is None


async def test_without_an_opinion_all_reasons_are_told() -> None:
    refused = await union(Says(Decision.no_opinion("a")), AlwaysDeny(), Says(Decision.no_opinion())).decide(ANN, PODS)
    assert (refused.allowed, refused.reason) == (False, "a\nEverything is forbidden.")


async def test_nobody_but_masters_may_do_anything_without_authorizers() -> None:
    assert not (await union().decide(ANN, PODS)).allowed
    assert (await union().decide(ROOT, PODS)).allowed
    assert (await union(Says(Decision.deny())).decide(ROOT, PODS)).allowed


@pytest.mark.parametrize("bad", [RuntimeError("broken"), True, None, "allow"])
async def test_one_that_fails_lets_nobody_in(bad: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(InternalError, match=r"Says, an authorizer, failed"):
        await union(Says(bad), AlwaysDeny()).decide(ANN, PODS)
    assert "Says.decide failed" in caplog.text
    assert (await union(Says(bad), AlwaysAllow()).decide(ANN, PODS)).allowed, "another knows better"
    assert (await union(Says(bad), Says(Decision.deny("no"))).decide(ANN, PODS)).reason == "no"


async def test_an_error_meant_for_the_client_refuses_at_once() -> None:
    with pytest.raises(TooManyRequests):
        await union(Says(TooManyRequests("the directory is busy")), AlwaysAllow()).decide(ANN, PODS)


async def test_paths_for_everybody() -> None:
    paths = AllowedPaths(["/livez", "/open/*"])
    for path, allowed in {"/livez": True, "/livez/ping": False, "/open/a/b": True, "/open": False, "/": False}.items():
        assert (await paths.decide(ANN, Target("get", path=path))).allowed is allowed
    assert not (await paths.decide(ANN, Target("get", "", "v1", "pods", path="/livez"))).allowed
    assert not (await AllowedPaths([]).decide(ANN, Target("get", path="/"))).allowed


async def test_what_is_known_of_rules_is_joined() -> None:
    known = await union(AlwaysDeny(), AlwaysAllow(), Says(Decision.deny())).rules(ANN, "x")
    assert [rule.verbs for rule in known.rules] == [("*",), ("*",)]
    assert (known.incomplete, known.error) == (True, "Says can't list the rules of a user")
