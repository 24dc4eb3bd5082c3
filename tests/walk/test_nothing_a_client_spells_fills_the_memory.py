"""Clients that spell something else each time: nothing is remembered of strangers, and little of anybody.

tests/house/test_memories.py knows what is remembered; every entry there is attacked here by its name.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import pytest
from thoroughness import rounds
from token_users import by_token
from walk_kit import BOATS, boat, fleet, made, walk

from oarlock.codec import protobuf_writing
from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.endpoints import respond
from oarlock.endpoints.http import Request, Response, Unsent
from oarlock.endpoints.request_state import RequestState
from oarlock.http2.frames import Http2Error
from oarlock.meta.context import Peer, Target, User
from oarlock.meta.memo import Memo
from oarlock.patch.apply import elements
from oarlock.patch.apply.schema import object_type
from oarlock.patch.apply.tracking import FieldManager, FieldTracker
from oarlock.policy.audit.policy import policy_of
from oarlock.policy.authn.authenticator import Anonymous, BadCredentials, Credentials
from oarlock.policy.authn.tokens.remote_tokens import RemoteTokens
from oarlock.policy.authz.role_based import RoleBasedAuthorizer, RoleBasedPolicy
from oarlock.policy.authz.roles import read_binding
from oarlock.policy.fairness.engine import Fairness
from oarlock.registry.read.selection import SelectedKind, SelectionMemo
from oarlock.schema.cel.library import costs
from oarlock.schema.structural.nodes import parse
from oarlock.schema.structural.patterns import CompiledPattern
from oarlock.schema.validation import objectmeta
from oarlock.server.filters import answer_headers
from oarlock.server.serving import header_names
from oarlock.server.serving.config import ConnectionLimits
from oarlock.server.serving.header_names import FIELD_BYTES, known_heads
from oarlock.server.serving.http1.connection import Http1Connection
from oarlock.server.serving.http2 import heads as http2_headers
from oarlock.server.serving.http2.heads import ReceivedBlocks
from oarlock.server.serving.listener_state import ListenerState
from oarlock.storage.cache.entry import Interner
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
Attack = Callable[[], Awaitable[list[Memo[Any, Any]]]]


async def routes() -> list[Memo[Any, Any]]:
    api, _ = fleet()
    async with api:
        router = api.parts.resources.router
        memo = router.route_table.routes  # type: ignore[union-attr]
        for n in range(7000):
            if n % 2:
                where, query = f"{BOATS}/{n:0900}", ""
            else:
                where, query = BOATS, "&".join(f"{n}a{i:02}={i:040}" for i in range(16))
            request = Request("GET", where, query, {}, [], Peer("", 0), nothing, 0.0)
            x = RequestState(request, api.clock)
            router.resolve(x)
            x.user = User("somebody")
            assert x.route is not None
            router.cache_route(x, x.route)
        return [memo]


async def nothing() -> bytes:
    return b""


async def accepts() -> list[Memo[Any, Any]]:
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        for n in range(1000):
            await api.get(f"{BOATS}/a", accept=f"application/json;x={n:0950},*/*")
        return [respond._forms]


async def headers() -> list[Memo[Any, Any]]:
    tokens = by_token([(f"{n:08000}", User("somebody")) for n in range(3000)])
    for n in range(3000):
        assert await tokens.authenticate(Credentials({"authorization": f"Bearer {n:08000}"}, ())) is not None
    return [tokens.remembered]


async def decisions() -> list[Memo[Any, Any]]:
    """Long and short names, many groups, and reasons, of those who may and of those who may not."""
    policy = RoleBasedPolicy()
    subject = {"kind": "Group", "name": "g0"}
    reference = {"kind": "ClusterRole", "name": "r"}
    policy.put_binding(read_binding("", {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}))
    authorizer = RoleBasedAuthorizer(policy)
    for n in range(15_000):
        user = User(f"u{n}", groups=tuple(f"g{each}" for each in range(n % 40)))
        await authorizer.decide(user, Target("get", "g", "v1", "things", name=f"{n:0{n % 600}}"))
    return [authorizer._decisions]


async def refusals() -> list[Memo[Any, Any]]:
    """Tokens that nobody has, each refused with a long text."""

    async def refuse(tree: Any) -> Any:
        return {"status": {"error": "x" * 2000}}

    remote = RemoteTokens("the cluster", refuse, VirtualClock())
    for n in range(8000):
        with contextlib.suppress(BadCredentials):
            await remote.identify(f"{n:030}", ())
    return [remote.refused]


async def noted() -> list[Memo[Any, Any]]:
    for n in range(5000):
        answer_headers._of_one(f"{n:0250}☃")
    return [answer_headers._alone]


async def heads() -> list[Memo[Any, Any]]:
    """Short headers by the dozen, and long ones."""
    loop = asyncio.get_running_loop()

    async def answer(request: Request) -> Response:
        return Response(200, [])

    state = ListenerState(answer, ConnectionLimits(), VirtualClock(), loop, Unsent())
    transport = Mock(get_write_buffer_size=lambda: 0)
    for n in range(rounds(3000, 1500)):
        fields = [(b"%d" % i, b"%d" % n, False) for i in range(n % 100)] or [(b"a", b"%d" % n * 500, False)]
        head = [(b":method", b"GET", False), (b":scheme", b"https", False), (b":path", b"/", False)]
        size = sum(len(name) + len(value) + FIELD_BYTES for name, value, _ in fields)
        http2_headers.known_request_head((*head, (b"host", b"h", False), *fields), size, state.http2_heads)
        connection = Http1Connection(state, transport, Peer("192.0.2.1", 1), True, 0.0)
        lines = b"".join(b"%b: %b\r\n" % (name, value) for name, value, _ in fields)
        connection.data_received(b"GET / HTTP/1.1\r\nhost: h\r\n%b\r\n" % lines)
        connection.connection_lost(None)
    return [state.http1_heads, state.http2_heads]


async def blocks() -> list[Memo[Any, Any]]:
    """On many connections: short and long headers without number, and blocks that say much in few bytes."""
    literal, indexed = b"\x00\x03abc", b"\x82\x84\x87"
    attacked = [ReceivedBlocks(1_000_000, 2000) for _ in range(rounds(100, 25))]
    known = known_heads()
    for received in attacked:
        for n in range(100):
            value = b"%d" % n * (n % 60)
            said = [literal + bytes((len(value),)) + value, b"\x01\x01h" + b"\x90" * (40 * n), literal * (n % 50)]
            said.append(b"\x00\x01b\x7f\x81\x7a" + b"%016000d" % n)
            for text in said:
                with contextlib.suppress(Http2Error, http2_headers.MalformedRequest):
                    received.decode(indexed + b"\x01\x02h%d" % (n % 10) + text).head(known)
    return [received._remembered for received in attacked]


async def selectors() -> list[Memo[Any, Any]]:
    """As many terms, values and keys as fit into a text that is remembered, and short ones."""
    memo = SelectionMemo()
    for n in range(rounds(3000, 1500)):
        keys = ",".join(f"{n}{chr(97 + i % 26)}{i // 26}" for i in range(140))
        values = ",".join(f"{n}{chr(97 + i % 26)}{i // 26}" for i in range(140))
        short = f"a{n}=b", f"a in ({values})", keys, ",".join(f"!{key}" for key in keys.split(",")[:120])
        memo.compiled(short[n % 4], "", {}, "v1", SelectedKind())
        memo.compiled("", ",".join(f"spec.a!={n}{i}" for i in range(70)), {"spec.a": 0}, "v1", SelectedKind())
    return [memo.remembered]


async def patterns() -> list[Memo[Any, Any]]:
    for n in range(50):
        costs.regex_of(f"(a|b)*a(a|b){{10}}{n}")
    return [costs._compiled]


V1 = "x.example.com/v1"
TYPE = object_type(parse({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))


def tracked(name: str, fields: int, size: int) -> Any:
    """An object whose owner owns `fields` fields with names of `size` characters."""
    owned = {f"f:{name}{n:0{size}}": {} for n in range(fields)}
    entry = {"manager": "m", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": owned}
    return {"metadata": {"name": name, "managedFields": [entry]}}


async def sets_of_fields() -> list[Memo[Any, Any]]:
    """Small sets by the thousand, and large ones with a small change each."""
    tracker = FieldTracker({V1: TYPE})
    writer = FieldManager("w", V1, "2026-01-01T00:00:00Z", "")
    for n in range(1500):
        live = tracked(f"n{n}-", 20, 60)
        tracker.update(live, {**live, "spec": {"a": n}}, writer)
    for n in range(20):
        live = tracked(f"n{n}-", 2000, 60)
        tracker.update(live, {**live, "spec": {"a": n}}, writer)
    for n in range(1500):
        spec = {f"n{n}-{field:060}": n for field in range(20)}
        tracker.update(None, {"metadata": {"name": f"n{n}"}, "spec": spec}, writer)
    return [tracker._read, tracker._created, tracker._cache.results]


async def fields_in_protobuf() -> list[Memo[Any, Any]]:
    """Fields of containers, each in two pods, so that it is worth to remember them."""
    message = kubernetes_message("core.v1.Pod")
    for n in range(4000):
        env = [{"name": f"NAME_{n}_{number}", "value": "x" * 50} for number in range(20)]
        for name in "ab":
            message.write({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "env": env}]}})
    return [protobuf_writing._remembered]


async def flows() -> list[Memo[Any, Any]]:
    fairness = Fairness(600, lambda: 0.0)
    for n in range(20_000):
        user, target = User(f"user-{n:0400}", groups=(f"group-{n}",)), Target("get", path=f"/{n:0400}")
        fairness.flow_of((user.name, user.groups, target.path), user, target, target.path)
    return [fairness._flows]


async def recorded() -> list[Memo[Any, Any]]:
    """Paths of a user whose requests are recorded by a policy of many rules."""
    rules = [{"level": "None", "users": [str(i)]} for i in range(9)]
    policy = policy_of({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [*rules, {"level": "Metadata"}]})
    for i in range(8000):
        policy.decide(User("alice", groups=("devs",)), Target("get", path=f"/{i}{'x' * (i % 1000)}"))
    return [policy._decided]


ATTACKS: dict[str, tuple[Attack, int]] = {
    "codec/protobuf_writing.py: _remembered": (fields_in_protobuf, 20 * MIB),
    "endpoints/routing/route_table.py: self.routes": (routes, 40 * MIB),
    "endpoints/respond.py: _forms": (accepts, 2 * MIB),
    "policy/authz/role_based.py: self._decisions": (decisions, 10 * MIB),
    "policy/fairness/engine.py: self._flows": (flows, 6 * MIB),
    "policy/authn/tokens/bearer_tokens.py: self.remembered": (headers, 20 * MIB),
    "policy/authn/tokens/remote_tokens.py: self.refused": (refusals, 5 * MIB),
    "policy/audit/policy.py: self._decided": (recorded, 4 * MIB),
    "registry/read/selection.py: self.remembered": (selectors, 4 * MIB),
    "server/filters/answer_headers.py: _alone": (noted, MIB),
    "server/serving/http2/heads.py: self._remembered": (blocks, 4 * MIB),
    "server/serving/header_names.py: heads": (heads, 2 * MIB),
    "schema/cel/library/costs.py: _compiled": (patterns, MIB),
    "patch/apply/tracking.py: self._read": (sets_of_fields, 20 * MIB),
    "patch/apply/tracking.py: self._created": (sets_of_fields, 20 * MIB),
    "patch/apply/managers.py: self.results": (sets_of_fields, 20 * MIB),
}
"""What fills a memo, and how many bytes may be held afterwards. That of "policy/authn/certificates.py: self._known" can
be filled only with certificates that an authority signed: see tests/unit/policy/test_client_certificates.py."""


def measured(attack: Callable[[], Awaitable[Any]]) -> tuple[Any, int]:
    """What it gives, and how many bytes are held when it has ended."""
    gc.collect()
    tracemalloc.start()
    try:
        with asyncio.Runner() as runner:
            result = runner.run(attack())  # type: ignore[arg-type]
        gc.collect()
        return result, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def check(memos: list[Memo[Any, Any]]) -> None:
    for memo in memos:
        assert len(memo) > 0
        assert memo.held_bytes <= memo.limit_bytes


@pytest.mark.parametrize("name", ATTACKS)
def test_a_memo_is_bounded(name: str) -> None:
    with asyncio.Runner() as runner:
        check(runner.run(ATTACKS[name][0]()))  # type: ignore[arg-type]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ATTACKS)
def test_a_memo_holds_what_it_says_and_no_more(name: str) -> None:
    attack, most = ATTACKS[name]
    memos, held = measured(attack)
    assert held <= most
    check(memos)


LONG = "x" * 4_000_000

FUNCTIONS: dict[str, Callable[[int], Any]] = {
    "list keys": lambda n: elements.key({f"{n}{LONG}": "short"}),
    "list keys that are read": lambda n: elements.canonical(f'k:{{"{n}{LONG}":"short"}}'),
    "members of sets": lambda n: elements.value(f"{n}{LONG}"),
    "members of sets that are read": lambda n: elements.canonical(f'v:"{n}{LONG}"'),
    "label values": lambda n: labelled({"a": f"{n}{LONG}"}),
    "label keys": lambda n: labelled({f"{n}{LONG}": "a"}),
    "namespaces": lambda n: labelled({}, namespace=f"{n}{LONG}"),
    "values of fields with a pattern": lambda n: PATTERN.found_in(f"{n}{LONG}"),
    "expressions": lambda n: costs.regex_of(f"{n}x{'y' * 20_000}"),
    "label sets": lambda n: INTERNER.labels({f"{n}": LONG}),
    "warnings": lambda n: answer_headers._of_one(f"{n}{LONG}"),
}
PATTERN = CompiledPattern("^[0-9x]*$")
INTERNER = Interner()


def labelled(labels: dict[str, str], namespace: str = "default") -> None:
    metadata = {"name": "a", "namespace": namespace, "labels": labels}
    list(objectmeta.validate_object_meta(metadata, namespaced=True, name_rule="dns-subdomain"))


@pytest.mark.parametrize("what", FUNCTIONS)
def test_what_is_long_is_not_remembered_at_all(what: str) -> None:
    async def attack() -> None:
        for n in range(10):
            FUNCTIONS[what](n)

    assert measured(attack)[1] < 2 * MIB


@pytest.mark.parametrize(
    "spell",
    [
        lambda n: elements.key({f"{n:060}": f"{n:060}"}),
        lambda n: elements.value(f"{n:0120}"),
        lambda n: elements.canonical(f'v:"{n:0120}"'),
        lambda n: labelled({f"{n:0250}.example.com/{n:060}": f"{n:063}"}),
        lambda n: PATTERN.found_in(f"{n:064}"),
        lambda n: INTERNER.labels({f"key-{i}": f"{n:0100}" for i in range(9)}),
    ],
)
def test_what_is_short_is_remembered_up_to_a_bound(spell: Callable[[int], Any]) -> None:
    """The longest that is taken, as often as there is room for it and again."""

    async def attack() -> None:
        for n in range(rounds(20_000, 4000)):
            spell(n)

    assert measured(attack)[1] < 80 * MIB
    assert INTERNER.held_bytes <= INTERNER.limit_bytes


class Nobody:
    """Lets nobody in."""

    waits = False

    async def authenticate(self, credentials: Credentials) -> User | None:
        return None


def strangers() -> InMemory:
    """A fleet that knows nobody, but answers probes to anybody."""
    api, _ = fleet()
    api.parts.authentication.anonymous = Anonymous(frozenset({"/livez"}))
    api._handle = api.parts.handler(Nobody())
    return api


@walk
async def test_nothing_is_remembered_of_those_who_are_not_let_in():
    api = strangers()
    async with api:
        route_table = api.parts.resources.router.route_table
        assert route_table is not None
        forms = len(respond._forms)
        for n in range(50):
            assert (await api.get(f"{BOATS}/{n}")).status == 401
            assert (await api.get(f"/livez?{n}")).status == 200
            assert (await api.get(f"/livez?{n}", accept=f"a/b;c={n}")).status == 200
            assert (await api.get(f"{BOATS}?watch=1&{n}", accept=f"application/json;c={n}")).status == 401
            assert (await api.get(BOATS, authorization=f"Bearer {n}")).status == 401
        assert len(route_table.routes) == 0
        assert len(respond._forms) == forms


@walk
async def test_a_route_is_remembered_once_it_is_known_who_asks():
    api, _ = fleet()
    async with api:
        route_table = api.parts.resources.router.route_table
        assert route_table is not None
        for _ in range(3):
            await api.get(f"{BOATS}/a")
            await api.get(f"{BOATS}?limit=5")
        assert sorted(route_table.routes._values) == [("GET", BOATS, "limit=5"), ("GET", f"{BOATS}/a", "")]
        await api.get(f"{BOATS}?labelSelector={'a' * 1100}")
        await api.get(f"{BOATS}?" + "&".join(f"a={n}" for n in range(17)))
        assert len(route_table.routes) == 2


def test_header_names_of_clients_are_not_learned() -> None:
    before = dict(header_names.LOWER_CASE), dict(header_names.ANY_CASE)
    head = [(b":method", b"GET", False), (b":scheme", b"https", False), (b":path", b"/", False)]
    head.append((b":authority", b"h", False))
    for n in range(1000):
        assert header_names.header_name(b"X-%d" % n) == f"x-{n}"
        http2_headers.request_head([*head, (b"x-%d" % n, b"v", False)])
    assert (dict(header_names.LOWER_CASE), dict(header_names.ANY_CASE)) == before


@walk
async def test_managed_fields_with_long_keys_are_not_remembered():
    """Sent in a body by whoever may write."""
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat("a"))
        before = elements._text_key.cache_info().currsize
        for n in range(5):
            fields = {"f:metadata": {"f:finalizers": {f'k:{{"{n}{"x" * 300_000}":"v"}}': {}}}}
            entry = {"manager": "m", "operation": "Update", "apiVersion": tree["apiVersion"]}
            entry |= {"time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}
            body = json.dumps({"metadata": {"managedFields": [entry]}}).encode()
            await api.request("PATCH", f"{BOATS}/a", body, {"content-type": "application/merge-patch+json"})
        assert elements._text_key.cache_info().currsize == before
