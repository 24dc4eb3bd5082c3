"""What every answer has, and in which order requests are turned away."""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from typing import Any

import pytest

from oarlock.endpoints.http import BodySource, BrokenBody, Response
from oarlock.meta.context import Target, User
from oarlock.meta.errors import NotFound
from oarlock.meta.kinds import GroupResource
from oarlock.policy.authn.authenticator import Anonymous
from oarlock.policy.authz.authorizer import AlwaysAllow, Authorizer, Decision, Outcome
from oarlock.server.assembly.identities import check_anonymous
from oarlock.server.filters.answer_headers import uuid_pool
from oarlock.server.filters.fairness import SLOW_S, MaxInFlight
from oarlock.server.filters.filter import Leaving, Shutdown
from oarlock.server.options.option import ConfigError

pytestmark = pytest.mark.anyio


def status(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


async def test_an_answer_has_an_audit_id_and_forbids_caching(chain: Any, header: Any) -> None:
    response = await chain.send()
    assert response.status == 200
    assert uuid.UUID(header(response, "audit-id")).version == 4
    assert header(response, "cache-control") == "no-cache, private"


async def test_the_clients_audit_id_is_echoed(chain: Any, header: Any) -> None:
    assert header(await chain.send(headers={"audit-id": "abc-123"}), "audit-id") == "abc-123"


async def test_a_body_that_never_comes_whole_is_a_bad_request(chain: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Its framing broke, or the client went away: neither is a bug of the server's."""

    async def reads(x: Any) -> Response:
        raise BrokenBody("Invalid character in chunk size")

    chain.dispatch = reads
    response = await chain.send(method="POST")
    assert response.status == 400
    assert status(response)["reason"] == "BadRequest"
    assert "Invalid character in chunk size" in status(response)["message"]
    assert caplog.records == []


@pytest.mark.parametrize("given", ["", "a\tb", "é", "x" * 1025])
async def test_an_audit_id_that_no_header_should_hold_is_replaced(chain: Any, header: Any, given: str) -> None:
    assert uuid.UUID(header(await chain.send(headers={"audit-id": given}), "audit-id")).version == 4


async def test_a_verb_may_allow_caching(chain: Any, header: Any) -> None:
    async def cached(x: Any) -> Response:
        return Response(200, [("cache-control", "public")])

    chain.dispatch = cached
    assert header(await chain.send(), "cache-control") == "public"


async def test_ids_are_different_and_well_formed_over_several_batches() -> None:
    make = uuid_pool(lambda n: bytes(range(256)) * (n // 256))
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", make()) for _ in range(600))
    random = uuid_pool(os.urandom)
    made = [random() for _ in range(600)]
    assert len(set(made)) == 600
    assert {uuid.UUID(one).version for one in made} == {4}
    assert {uuid.UUID(one).variant for one in made} == {uuid.RFC_4122}


@pytest.mark.parametrize("token", [None, "wrong"])
async def test_nobody_is_let_in_without_a_good_credential(chain: Any, header: Any, token: str | None) -> None:
    response = await chain.send(token=token)
    assert response.status == 401
    assert status(response) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
    assert header(response, "content-type") == "application/json"
    assert header(response, "www-authenticate") is None
    assert header(response, "audit-id")
    assert header(response, "cache-control") == "no-cache, private"


async def test_anonymous_paths_are_exact(chain: Any) -> None:
    chain.config["anonymous"] = Anonymous(frozenset({"/livez"}))
    seen: list[User] = []

    async def remember(x: Any) -> Response:
        seen.append(x.user)
        return Response(200, [])

    chain.dispatch = remember
    assert (await chain.send("/livez", token=None)).status == 200
    assert (await chain.send("/livez?verbose", token=None)).status == 200
    assert {u.name for u in seen} == {"system:anonymous"}
    assert seen[0].groups == ("system:unauthenticated",)
    for path in ("/livez/", "/livez/ping", "//livez", "/%6civez", "/livez/../apis", "/healthz", "/apis"):
        assert (await chain.send(path, token=None)).status == 401, path


async def test_a_bad_token_is_not_taken_for_nobody(chain: Any) -> None:
    chain.config["anonymous"] = Anonymous(frozenset({"/livez"}))
    assert (await chain.send("/livez", token="wrong")).status == 401


@pytest.mark.parametrize("path", ["/" + "a" * 100_000, "/a%0aFAKE%20LINE", "/x?" + "y" * 100_000])
async def test_who_has_no_credentials_writes_one_short_line_of_the_log_at_most(
    chain: Any, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.DEBUG, "oarlock")
    assert (await chain.send(path, token="wrong")).status == 401
    assert (await chain.send(path, token=None)).status == 401
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 1
    assert len(texts[0]) < 1200
    assert "\n" not in texts[0]


async def test_known_errors_become_a_status(chain: Any) -> None:
    async def missing(x: Any) -> Response:
        raise NotFound(GroupResource("wardle.example.com", "flunders"), "f1")

    chain.dispatch = missing
    response = await chain.send("/apis/wardle.example.com/v1alpha1/namespaces/default/flunders/f1")
    assert response.status == 404
    assert status(response)["message"] == 'flunders.wardle.example.com "f1" not found'


async def test_a_bug_is_a_500_with_an_audit_id(chain: Any, header: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(x: Any) -> Response:
        raise ZeroDivisionError("oops")

    chain.dispatch = broken
    with caplog.at_level(logging.ERROR):
        response = await chain.send(headers={"audit-id": "find-me"})
    assert response.status == 500
    status = json.loads(response.body)
    text = "This request caused apiserver to panic. Look in the logs for details."
    assert (status["reason"], status["message"]) == ("InternalError", f"Internal error occurred: {text}")
    assert header(response, "content-type") == "application/json"
    assert header(response, "audit-id") == "find-me"
    assert "find-me" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_a_bug_is_counted_like_any_other_answer(chain: Any) -> None:
    observed: list[tuple[str, int]] = []

    async def broken(x: Any) -> Response:
        raise ZeroDivisionError("oops")

    chain.dispatch = broken
    chain.config["observe"] = lambda x, response: observed.append((x.target.verb, response.status))
    await chain.send()
    assert observed == [("list", 500)]


async def test_a_path_that_cannot_be_decoded_is_400(chain: Any) -> None:
    assert (await chain.send("/apis/a/v1/%zz")).status == 400
    assert (await chain.send("/apis/a/v1/%ff")).status == 400


async def test_what_is_not_allowed_is_403(chain: Any, header: Any) -> None:
    class OnlyReading(Authorizer):
        async def decide(self, user: User, target: Target) -> Decision:
            return Decision(Outcome.ALLOW) if target.verb == "list" else Decision(Outcome.NO_OPINION, "no rule")

    chain.config["authorizer"] = OnlyReading()
    assert (await chain.send(token="alice-token")).status == 200
    response = await chain.send(method="POST", token="alice-token")
    assert response.status == 403
    assert status(response)["message"] == (
        'flunders.wardle.example.com is forbidden: User "alice" cannot create resource "flunders" in API group '
        '"wardle.example.com" in the namespace "default": no rule'
    )
    assert header(response, "x-content-type-options") == "nosniff"


async def test_a_request_counts_until_its_answer_is_there(chain: Any) -> None:
    async def counted(x: Any) -> Response:
        assert limit.read_only + limit.mutating == 1
        return Response(200, [], b"{}")

    limit = chain.config["max_in_flight"] = MaxInFlight(read_only_limit=1, mutating_limit=1)
    chain.dispatch = counted
    for method in ("GET", "POST", "GET", "POST"):
        response = await chain.begin(token="alice-token", method=method)
        assert response.status == 200
        assert (limit.read_only, limit.mutating) == (0, 0)
        response.sent(False)
    assert (limit.read_only, limit.mutating) == (0, 0)


class MadeWhileSent(BodySource):
    """A list, as it is made while it is sent."""

    def read(self, most: int) -> bytes:
        self.done = True
        return b"{}"


@pytest.mark.parametrize("whole", [True, False])
async def test_an_answer_that_is_made_while_it_is_sent_counts_until_then(chain: Any, whole: bool) -> None:
    async def made(x: Any) -> Response:
        return Response(200, [], MadeWhileSent(None))

    limit = chain.config["max_in_flight"] = MaxInFlight(read_only_limit=1, mutating_limit=1)
    chain.dispatch = made
    reading = await chain.begin(token="alice-token")
    writing = await chain.begin(token="alice-token", method="POST")
    assert (limit.read_only, limit.mutating) == (1, 1)
    assert (await chain.begin(token="alice-token")).status == 429
    assert (await chain.begin(token="alice-token", method="POST")).status == 429
    reading.sent(whole)
    writing.sent(whole)
    assert (limit.read_only, limit.mutating) == (0, 0)


async def test_an_answer_that_is_taken_slowly_gives_its_place_to_who_needs_it(chain: Any) -> None:
    async def made(x: Any) -> Response:
        return Response(200, [], MadeWhileSent(None))

    limit = chain.config["max_in_flight"] = MaxInFlight(read_only_limit=2, mutating_limit=1)
    chain.dispatch = made
    unread = [await chain.begin(token="alice-token") for _ in range(2)]
    assert (await chain.begin(token="alice-token")).status == 429
    chain.clock.ticks += 2 * SLOW_S
    later = [await chain.begin(token="alice-token") for _ in range(3)]
    assert [one.status for one in later] == [200, 200, 429]
    assert limit.read_only == 2
    for one in (*unread, *later):
        one.sent(False)
    assert (limit.read_only, limit.mutating) == (0, 0)


async def test_a_watch_counts_until_it_begins(chain: Any) -> None:
    async def watch(x: Any) -> Response:
        assert limit.read_only == 1
        return Response(200, [], stream=lambda stream: None)

    limit = chain.config["max_in_flight"] = MaxInFlight()
    chain.dispatch = watch
    await chain.begin("/apis/wardle.example.com/v1alpha1/flunders?watch=1")
    assert limit.read_only == 0


async def test_a_request_that_failed_counts_no_more(chain: Any) -> None:
    async def broken(x: Any) -> Response:
        raise ZeroDivisionError("oops")

    limit = chain.config["max_in_flight"] = MaxInFlight()
    chain.dispatch = broken
    await chain.begin()
    await chain.begin(method="POST")
    assert (limit.read_only, limit.mutating) == (0, 0)


async def test_too_many_at_a_time_are_turned_away(chain: Any, header: Any) -> None:
    limit = MaxInFlight(read_only_limit=1, mutating_limit=1)
    chain.config["max_in_flight"] = limit
    inner: list[Response] = []

    async def again(x: Any) -> Response:
        if x.request.query != "again":
            assert (limit.read_only, limit.mutating) in ((1, 0), (0, 1))
            inner.append(await chain.send("/apis?again", token="alice-token"))
            inner.append(await chain.send("/apis?again", method="POST", token="alice-token"))
            inner.append(await chain.send("/apis?again", token="admin-token"))
        return Response(200, [])

    chain.dispatch = again
    assert (await chain.send("/apis", token="alice-token")).status == 200
    assert [r.status for r in inner] == [429, 200, 200]
    assert inner[0].body == b"Too many requests, please try again later.\n"
    assert header(inner[0], "retry-after") == "1"
    assert header(inner[0], "content-type") == "text/plain; charset=utf-8"
    inner.clear()
    assert (await chain.send("/apis", method="PUT", token="alice-token")).status == 200
    assert [r.status for r in inner] == [200, 429, 200]
    assert (limit.read_only, limit.mutating) == (0, 0)


async def test_no_limit_is_zero(chain: Any) -> None:
    chain.config["max_in_flight"] = MaxInFlight(0, 0)
    assert (await chain.send(token="alice-token")).status == 200
    assert (await chain.send(method="POST", token="alice-token")).status == 200


async def test_401_comes_before_429_before_403(chain: Any) -> None:
    class Nobody(Authorizer):
        async def decide(self, user: User, target: Target) -> Decision:
            return Decision(Outcome.DENY)

    full = MaxInFlight(1, 1)
    full.read_only = 1
    chain.config |= {"max_in_flight": full, "authorizer": Nobody()}
    assert (await chain.send(token=None)).status == 401
    assert (await chain.send(token="alice-token")).status == 429
    full.read_only = 0
    assert (await chain.send(token="alice-token")).status == 403


async def test_a_leaving_process_sends_clients_away_and_answers_probes(chain: Any, header: Any) -> None:
    shutdown = Shutdown()
    chain.config["shutdown"] = shutdown
    shutdown.leaving = Leaving.SOON
    response = await chain.send(token=None)
    assert response.status == 429
    assert response.body == b"The apiserver is shutting down, please try again later."
    assert header(response, "retry-after") == "5"
    assert header(response, "connection") == "close"
    for path in ("/readyz", "/livez/ping", "/healthz?verbose", "/metrics"):
        assert (await chain.send(path)).status == 200
    shutdown.leaving = Leaving.NOW
    response = await chain.send()
    assert response.status == 503
    assert header(response, "retry-after") == "1"
    assert header(response, "x-content-type-options") == "nosniff"
    assert status(response)["message"] == "apiserver is shutting down"
    assert status(response)["reason"] == "ServiceUnavailable"


async def test_warnings_are_sent_even_with_an_error(chain: Any) -> None:
    async def warn(x: Any) -> Response:
        x.notes.warn('say "so"')
        x.notes.warn('say "so"')
        x.notes.warn("more")
        raise NotFound(GroupResource("g", "r"), "n")

    chain.dispatch = warn
    response = await chain.send()
    assert [v for k, v in response.headers if k == "warning"] == [r'299 - "say \"so\""', '299 - "more"']


async def test_with_anonymous_access_authorization_decides_on_every_path(chain: Any) -> None:
    class Nobody(Authorizer):
        async def decide(self, user: User, target: Target) -> Decision:
            return Decision(Outcome.NO_OPINION)

    chain.config |= {"anonymous": Anonymous(None), "authorizer": Nobody()}
    assert (await chain.send(token=None)).status == 403
    assert (await chain.send(token="wrong")).status == 401


def test_anonymous_access_needs_an_authorizer_that_decides() -> None:
    with pytest.raises(ConfigError, match="every client could do everything"):
        check_anonymous(Anonymous(None), AlwaysAllow())
    check_anonymous(Anonymous(frozenset({"/livez"})), AlwaysAllow())


@pytest.mark.parametrize(
    ("how", "status_code", "closes"),
    [
        ({"token": None}, 401, True),
        ({"token": "wrong"}, 401, True),
        ({"token": None, "path": "/livez"}, 200, True),
        ({"token": "admin-token"}, 200, False),
        ({"token": "admin-token", "path": "/missing"}, 404, False),
    ],
)
async def test_who_is_not_known_gets_one_answer_on_a_connection_of_http2(
    chain: Any, header: Any, how: dict[str, Any], status_code: int, closes: bool
) -> None:
    async def answer(state: Any) -> Response:
        if state.request.path == "/missing":
            raise NotFound(GroupResource("", "things"), "x")
        return Response(200, [], b"ok")

    chain.dispatch = answer
    chain.config["anonymous"] = Anonymous(frozenset({"/livez"}))
    response = await chain.send(http2=True, **how)
    assert response.status == status_code
    assert header(response, "connection") == ("close" if closes else None)
    assert header(await chain.send(**how), "connection") is None
