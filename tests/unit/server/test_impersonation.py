"""A request in the name of somebody else: as whom it is carried out, and who may."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from oarlock.endpoints.http import Request, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Peer, Target, User
from oarlock.policy.authz.authorizer import Authorizer, Decision
from oarlock.server.chain import ChainConfig, build
from oarlock.server.local.transport import FixedUser
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio

SENDER = User("alice", "2", ("dev",))
Lines = list[tuple[str, str]]


class Allows(Authorizer):
    """Allows requests, and the impersonation of what is listed."""

    waits = False

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.allowed = allowed

    async def decide(self, user: User, target: Target) -> Decision:
        if target.verb != "impersonate":
            return Decision.allow()
        assert user.name == "alice"
        resource = f"{target.resource}/{target.subresource}".rstrip("/")
        return Decision.allow() if (resource, target.name) in self.allowed else Decision.no_opinion()


async def nothing() -> bytes:
    return b""


class Carried:
    """Sends one request; `user` and `headers` are those it is carried out with, None if it isn't."""

    def __init__(self, authorizer: Authorizer) -> None:
        def resolve(state: RequestState) -> None:
            state.target = Target("get", "", "v1", "things", name="a")

        config = ChainConfig(resolve=resolve, authenticator=FixedUser(SENDER), authorizer=authorizer)
        self.handle = build(config, self.carry_out, VirtualClock())
        self.user: User | None = None
        self.headers: Mapping[str, str] = {}

    async def carry_out(self, state: RequestState) -> Response:
        self.user, self.headers = state.user, state.request.headers
        return Response(200, [])

    async def send(self, lines: Lines) -> tuple[int, Any]:
        first: dict[str, str] = {}
        for name, value in lines:
            first.setdefault(name, value)
        response = await self.handle(Request("GET", "/x", "", first, lines, Peer("127.0.0.1", 1), nothing, 0.0))
        response.sent(True)
        return response.status, json.loads(response.body) if isinstance(
            response.body, bytes
        ) and response.body else None


EVERYTHING: Any = type("Everything", (), {"__contains__": lambda self, what: True})()


async def as_whom(*lines: tuple[str, str]) -> User | None:
    authorizer = Allows()
    authorizer.allowed = EVERYTHING
    carried = Carried(authorizer)
    status, _ = await carried.send(list(lines))
    assert status == 200
    assert not [name for name in carried.headers if name.startswith("impersonate-")], "nobody behind it sees them"
    return carried.user


AUTHENTICATED = "system:authenticated"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([("impersonate-user", "carol")], User("carol", groups=(AUTHENTICATED,))),
        (
            [("impersonate-user", "carol"), ("impersonate-group", "a"), ("impersonate-group", "b")],
            User("carol", groups=("a", "b", AUTHENTICATED)),
        ),
        ([("impersonate-user", "carol"), ("impersonate-uid", "77")], User("carol", "77", (AUTHENTICATED,))),
        (
            [
                ("impersonate-user", "carol"),
                ("impersonate-extra-scopes", "one"),
                ("impersonate-extra-scopes", "two"),
                ("impersonate-extra-acme.com%2Fproject", "p"),
                ("impersonate-extra-bad%zz", "q"),
            ],
            User(
                "carol",
                groups=(AUTHENTICATED,),
                extra={"scopes": ("one", "two"), "acme.com/project": ("p",), "bad%zz": ("q",)},
            ),
        ),
        (
            [("impersonate-user", "carol"), ("impersonate-group", "system:unauthenticated")],
            User("carol", groups=("system:unauthenticated",)),
        ),
        ([("impersonate-user", "system:anonymous")], User("system:anonymous", groups=("system:unauthenticated",))),
        (
            [("impersonate-user", "system:serviceaccount:default:robot")],
            User(
                "system:serviceaccount:default:robot",
                groups=("system:serviceaccounts", "system:serviceaccounts:default", AUTHENTICATED),
            ),
        ),
        (
            [("impersonate-user", "system:serviceaccount:default:robot"), ("impersonate-group", "a")],
            User("system:serviceaccount:default:robot", groups=("a", AUTHENTICATED)),
        ),
        (
            [("impersonate-user", "system:serviceaccount:default")],
            User("system:serviceaccount:default", groups=(AUTHENTICATED,)),
        ),
        ([("impersonate-user", "zo\xc3\xab"), ("impersonate-colour", "red")], User("zoë", groups=(AUTHENTICATED,))),
    ],
)
async def test_as_whom_a_request_is_carried_out(lines: Lines, expected: User) -> None:
    assert await as_whom(*lines) == expected


@pytest.mark.parametrize("lines", [[("impersonate-user", "")], [("impersonate-colour", "red")]])
async def test_headers_that_name_nobody_change_nothing(lines: Lines) -> None:
    user = await as_whom(*lines)
    assert user is not None
    assert user.name == "alice"


@pytest.mark.parametrize("name", ["impersonate-group", "impersonate-uid", "impersonate-extra-scopes"])
async def test_a_part_of_a_user_without_a_name_is_refused(name: str) -> None:
    carried = Carried(Allows())
    for lines in ([(name, "x")], [("impersonate-user", ""), (name, "x")]):
        status, told = await carried.send(lines)
        assert (status, told["reason"]) == (400, "BadRequest")
        assert "without impersonating a user" in told["message"]
    assert carried.user is None


SOME = (
    ("users", "bob"),
    ("groups", "qa"),
    ("uids", "77"),
    ("userextras/scopes", "view"),
    ("serviceaccounts", "robot"),
)


@pytest.mark.parametrize(
    ("lines", "name", "resource", "group"),
    [
        ([("impersonate-user", "dave")], "dave", "users", ""),
        (
            [("impersonate-user", "bob"), ("impersonate-group", "qa"), ("impersonate-group", "system:masters")],
            *("system:masters", "groups", ""),
        ),
        ([("impersonate-user", "bob"), ("impersonate-uid", "78")], "78", "uids", "authentication.k8s.io"),
        (
            [("impersonate-user", "bob"), ("impersonate-extra-scopes", "view"), ("impersonate-extra-scopes", "edit")],
            *("edit", "userextras/scopes", "authentication.k8s.io"),
        ),
        ([("impersonate-user", "system:serviceaccount:imp:other")], "other", "serviceaccounts", ""),
    ],
)
async def test_every_part_must_be_allowed(lines: Lines, name: str, resource: str, group: str) -> None:
    carried = Carried(Allows(*SOME))
    what = ".".join(filter(None, (resource.partition("/")[0], group)))
    where = 'in the namespace "imp"' if resource == "serviceaccounts" else "at the cluster scope"
    assert (await carried.send(lines))[1]["message"] == (
        f'{what} "{name}" is forbidden: User "alice" cannot impersonate resource "{resource}" in API group "{group}" '
        + where
    )
    assert carried.user is None
    everything = [("impersonate-user", "bob"), ("impersonate-group", "qa"), ("impersonate-uid", "77")]
    assert (await carried.send([*everything, ("impersonate-extra-scopes", "view")]))[0] == 200


async def test_the_request_itself_is_authorized_as_the_other() -> None:
    class NotCarol(Authorizer):
        async def decide(self, user: User, target: Target) -> Decision:
            return Decision.allow() if user.name != "carol" else Decision.deny("not carol")

    status, told = await Carried(NotCarol()).send([("impersonate-user", "carol")])
    assert (status, told["message"]) == (
        403,
        'things "a" is forbidden: User "carol" cannot get resource "things" in API group "" at the cluster scope: '
        "not carol",
    )
