"""Subresources that take over the connection: terminals, numbered channels and raw pipes, with the users' code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from walk_kit import GROUP, catalog, failure, made, path, walk

from oarlock import (
    Admission,
    APIServer,
    Channels,
    Context,
    DeclarationError,
    Denied,
    Pipe,
    Resource,
    Review,
    StoredCollection,
    VirtualCollection,
    errors,
    subresource,
)
from oarlock.endpoints.http import Request
from oarlock.meta.context import Peer, Target, User
from oarlock.meta.kinds import GroupResource
from oarlock.policy.authz.authorizer import Authorizer, Decision, Outcome
from oarlock.server.config import ServerConfig
from oarlock.testing.server import InMemory

DAY_S = 86_400.0
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
WEBSOCKET = {
    "connection": "keep-alive, Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Parrot(Resource, group=GROUP, version="v1"):
    """A bird that repeats what it hears."""

    mood: str = "calm"


PARROT = GroupResource(GROUP, "parrots")


class Parrots(StoredCollection[Parrot]):
    """Parrots, and talking with them."""

    def __init__(self) -> None:
        self._ended: list[str] = []
        self._go = asyncio.Event()
        self._written = 0

    @subresource("exec", connect=True)
    async def exec(
        self,
        name: str,
        parent: Parrot,
        channels: Channels,
        ctx: Context,
        *,
        command: list[str] = [],  # noqa: B006 never changed
        stdin: bool = False,
    ) -> int | None:
        try:
            return await self._talk(command, channels, f"{name} {parent.mood} {ctx.user.name} {stdin}")
        except asyncio.CancelledError:
            self._ended.append("cancelled")
            raise
        finally:
            self._ended.append(name)

    async def _talk(self, command: list[str], channels: Channels, text: str) -> int | None:
        match command:
            case ["refuse"]:
                raise errors.BadRequest("parrots don't do that")
            case ["break"]:
                raise ValueError("broken")
            case ["late", what]:
                await channels.stdout.write(b"so far\n")
                raise errors.Conflict(PARROT, "h", "changed") if what == "conflict" else ValueError(what)
            case ["slow"]:
                await asyncio.sleep(5)
                raise errors.BadRequest("too late for an ordinary answer")
            case ["exit", code]:
                return int(code)
            case ["wrong"]:
                return "text"  # type: ignore[return-value]
            case ["within"]:
                raise asyncio.CancelledError
            case ["stubborn"]:
                try:
                    await channels.stdin.read()
                except asyncio.CancelledError:
                    await asyncio.sleep(2)
                return 0
            case ["sizes"]:
                await anext(aiter(channels.stdin))  # all that was sent before it has come
                newest = await channels.resized()
                await channels.stdout.write(repr(tuple(newest)).encode())
                return None
            case ["flood"]:
                for _ in range(64):
                    await channels.stdout.write(b"y" * 65536)
                    self._written += 65536
                return None
            case ["deaf"]:
                await self._go.wait()
                return len(await channels.stdin.read())
            case ["close"]:
                await channels.stderr.close()
                await channels.stderr.write(b"nobody reads this")
                await channels.stdin.close()
                return len(await channels.stdin.read())
        await channels.stdout.write(f"{text} {channels.protocol}\n".encode())
        async for heard in channels.stdin:
            await channels.stderr.write(heard.upper())
            if b"bye" in heard:
                break
        return None

    @subresource("lines", connect=True, numbered=6)
    async def lines(self, channels: Channels, *, fail: bool = False) -> None:
        for number in (0, 3, 5):
            await channels[number].write(bytes((number,)))
        if fail:
            raise errors.TooManyRequests("all lines are busy")
        data = await channels[5].read()
        await channels[3].write(data[::-1])
        with pytest.raises(IndexError):
            channels[6]

    @subresource("chess", upgrade=["chess/1", "Checkers"])
    async def chess(self, name: str, pipe: Pipe, *, fail: bool = False) -> None:
        try:
            await pipe.write(f"{name} plays {pipe.protocol}\n".encode())
            if fail:
                raise ValueError("mate")
            while heard := await pipe.read():
                await pipe.write(heard.upper())
                if b"bye" in heard:
                    return
        finally:
            self._ended.append("chess")


PARROTS = path("parrots", version="v1")
EXEC = f"{PARROTS}/h/exec"


def birds(*, authorizer: Any = None, admission: Any = (), **config: Any) -> tuple[InMemory, Parrots]:
    parrots = Parrots()
    settings = ServerConfig(storage="memory://", **config)
    server = APIServer(serve=[parrots], authorizer=authorizer, admission=list(admission))
    return InMemory(server, config=settings, raise_server_exceptions=False), parrots


@contextmanager
def silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.clear()
    yield
    assert [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []


SUCCESS = {"metadata": {}, "status": "Success"}


@walk
@pytest.mark.parametrize(
    "protocol", [V5, V4, "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io", ""]
)
async def test_a_terminal_over_every_protocol(protocol: str) -> None:
    api, parrots = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        async with api.connect(f"{EXEC}?command=a&command=b&stdin=true", protocol) as client:
            assert client.protocol == protocol
            assert await client.receive() == (1, f"h calm admin True {protocol}\n".encode())
            client.send(0, b"hello")
            assert await client.receive() == (2, b"HELLO")
            client.send(0, b"bye")
            if protocol.startswith("v"):
                assert await client.outcome() == SUCCESS
            else:
                assert await client.rest() == {2: b"BYE"}
            assert client.closed == (1000, "")
        assert parrots._ended == ["h"]


@walk
@pytest.mark.parametrize("protocol", [V5, "v4.base64.channel.k8s.io", "channel.k8s.io"])
async def test_how_it_ended(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    api, _ = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})

        async def ending(query: str) -> Any:
            async with api.connect(f"{EXEC}?{query}", protocol) as client:
                return await client.outcome() if protocol.startswith("v") else (await client.rest()).get(3, b"")

        with silent(caplog):
            nothing, failed = await ending("command=exit&command=0"), await ending("command=exit&command=7")
            conflict = await ending("command=late&command=conflict")
        broken = await ending("command=late&command=broken")
        assert "parrots.walk.example.com/exec failed halfway" in caplog.text
        if protocol.startswith("v"):
            assert nothing == SUCCESS
            assert failed == {
                "metadata": {},
                "status": "Failure",
                "message": "command terminated with non-zero exit code: exit status 7",
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
            }
            assert (conflict["code"], conflict["reason"]) == (409, "Conflict")
            assert (broken["code"], broken["reason"]) == (500, "InternalError")
            assert "broken" not in broken["message"]
        else:
            assert (nothing, failed) == (b"", b"command terminated with non-zero exit code: exit status 7")
            assert b"changed" in conflict


@walk
async def test_what_is_refused_before_the_upgrade() -> None:
    api, _ = birds()
    async with api:
        assert failure(await api.request("GET", f"{PARROTS}/none/exec", None, WEBSOCKET))[:2] == (404, "NotFound")
        await made(api, PARROTS, {"metadata": {"name": "h"}})

        async def refused(query: str = "", method: str = "GET", **headers: str) -> tuple[int, str, str]:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            sent = {name: value for name, value in {**WEBSOCKET, **named}.items() if value}
            return failure(await api.request(method, EXEC + query, None, sent))

        required = (400, "BadRequest", "Upgrade request required")
        assert failure(await api.get(EXEC)) == required
        assert failure(await api.post(EXEC, {})) == required
        assert await refused(connection="keep-alive") == required
        assert await refused(upgrade=" , ") == required
        assert (await refused(method="POST", upgrade="SPDY/3.1"))[:2] == (400, "BadRequest")
        assert (await refused(sec_websocket_key="short"))[0] == 400
        assert (await refused(sec_websocket_key="é" * 24))[0] == 400
        assert (await refused(sec_websocket_key=""))[0] == 400
        code, reason, message = await refused(sec_websocket_protocol="v9.channel.k8s.io, soap")
        assert (code, reason) == (403, "Forbidden")
        assert "requested protocol(s) are not supported: [v9.channel.k8s.io soap]; supports [v5.channel" in message
        for said in ("?dryRun=All", "?dryRun="):
            assert await refused(said) == (400, "BadRequest", "dryRun is not supported")
        assert 'stdin is "perhaps"' in (await refused("?stdin=perhaps"))[2]
        assert await refused("?command=refuse") == (400, "BadRequest", "parrots don't do that")
        assert (await api.request("GET", f"{EXEC}?command=break", None, WEBSOCKET)).status == 500
        assert (await api.request("GET", f"{EXEC}?command=within", None, WEBSOCKET)).status == 101
        assert failure(await api.put(EXEC, {}))[:2] == (405, "MethodNotAllowed")
        old = await api.request("GET", EXEC, None, {**WEBSOCKET, "sec-websocket-version": "8"})
        assert (old.status, old.headers["sec-websocket-version"]) == (400, "13")


@walk
async def test_http2_has_no_upgrades() -> None:
    api, parrots = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        for where in (EXEC, f"{PARROTS}/h/chess"):
            lines = [*WEBSOCKET.items(), ("upgrade", "chess/1")]
            request = Request("GET", where, "", WEBSOCKET, lines, Peer("127.0.0.1", 1), no_body, 0.0, http2=True)
            response = await api._handle(request)
            assert response.status == 400
            assert b"HTTP/2 has no upgrades" in response.body  # type: ignore[operator]
        assert parrots._ended == []


async def no_body() -> bytes:
    return b""


@walk
async def test_the_first_protocol_of_the_client_that_is_known() -> None:
    api, _ = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        async with api.connect(EXEC, f"soap, {V4}, {V5}") as client:
            assert client.protocol == V4
        for method in ("GET", "POST"):
            answer = await api.request(method, f"{EXEC}?command=exit&command=1", None, WEBSOCKET)
            assert answer.status == 101
            assert answer.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
            assert "sec-websocket-protocol" not in answer.headers


@walk
async def test_it_outlives_the_deadline_and_is_pinged() -> None:
    api, _ = birds(request_timeout_s=5.0)
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        async with api.connect(f"{EXEC}?timeout=1s") as client:
            await client.receive()
            for _ in range(4):
                await asyncio.sleep(31)
                client._receive_frames(await client.read())
            assert client.pings >= 3
            client.ping()
            client.send(0, b"still here")
            assert await client.receive() == (2, b"STILL HERE")


@walk
async def test_what_fails_too_late_for_an_answer_is_told_on_the_error_channel() -> None:
    api, _ = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        async with api.connect(f"{EXEC}?command=slow") as client:
            assert (await client.outcome())["message"] == "too late for an ordinary answer"
        assert (await api.request("GET", f"{EXEC}?command=wrong", None, WEBSOCKET)).status == 500


@walk
@pytest.mark.parametrize("how", ["close", "leave"])
async def test_a_client_that_goes_cancels_the_method(how: str, caplog: pytest.LogCaptureFixture) -> None:
    api, parrots = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        with silent(caplog):
            async with api.connect(EXEC) as client:
                await client.receive()
                getattr(client, how)()
                await asyncio.sleep(1)
                assert parrots._ended == ["cancelled", "h"]
                assert client.tunnel.closed
                if how == "close":
                    assert await client.rest() == {}
                    assert client.closed == (1000, "")
            assert api.parts.resources.router.watches.long_running == {}


@walk
async def test_a_client_that_leaves_before_the_method_begins(caplog: pytest.LogCaptureFixture) -> None:
    api, parrots = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        with silent(caplog):
            asking = asyncio.ensure_future(api._send("GET", f"{EXEC}?command=slow", None, WEBSOCKET))
            await asyncio.sleep(0.1)
            asking.cancel()
            await asyncio.wait((asking,))
            await asyncio.sleep(0)
            assert parrots._ended == ["cancelled", "h"]
            begun = await api._send("GET", EXEC, None, WEBSOCKET)
            assert begun.status == 101  # and nobody takes it
            await asyncio.sleep(60)
            assert parrots._ended == ["cancelled", "h"] * 2


@walk
async def test_standard_input_can_end_alone() -> None:
    api, parrots = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        async with api.connect(EXEC) as client:
            await client.receive()
            client.send(0, b"one")
            client.close_channel(0)
            client.send(0, b"nobody hears this")
            assert await client.rest() == {2: b"ONE", 3: b'{"metadata":{},"status":"Success"}'}
        async with api.connect(f"{EXEC}?command=close") as client:
            found = await client.rest()
            assert found[255] == bytes((2, 0))
            assert 2 not in found
        async with api.connect(f"{EXEC}?command=close", V4) as client:
            assert 255 not in await client.rest()
        assert "cancelled" not in parrots._ended


@walk
async def test_the_newest_size_of_the_terminal() -> None:
    api, _ = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        async with api.connect(f"{EXEC}?command=sizes&tty=true") as client:
            for told in (b"no size", b"\xff", b'{"Width":-1,"Height":2}', b"x" * 5000, b'{"Width":1}'):
                client.send(4, told)
            client.send(4, b'{"Width":80,"Height":24}')
            client.send(4, b'{"Width":132,"Height":50}')
            client.send(0, b"go on")
            assert await client.receive() == (1, b"(132, 50)")


@walk
async def test_neither_side_is_flooded() -> None:
    api, parrots = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        async with api.connect(f"{EXEC}?command=flood") as client:
            await asyncio.sleep(10)
            assert parrots._written <= 128 * 1024
            assert len((await client.rest())[1]) == 64 * 65536
        async with api.connect(f"{EXEC}?command=deaf") as client:
            for _ in range(100):
                client.send(0, b"x" * 65536)
                await asyncio.sleep(0.1)
            waiting = client.tunnel.to_server.size
            assert waiting > 5 * 1024 * 1024  # with the client, where it belongs
            parrots._go.set()
            told = await client.outcome()
            assert int(told["details"]["causes"][0]["message"]) < 1024 * 1024


@walk
async def test_it_ends_when_the_server_leaves_or_the_resource_goes(caplog: pytest.LogCaptureFixture) -> None:
    api, parrots = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        with silent(caplog):
            async with api.connect(EXEC) as kept, api.upgrade(f"{PARROTS}/h/chess", "chess/1") as game:
                assert await game.read() == b"h plays chess/1\n"
                await api.replace(catalog(keep=api.server.catalog))
                assert not kept.tunnel.closed
                await api.replace(catalog(Parrots(), generation=3))
                told = await kept.outcome()
                assert (told["code"], told["reason"]) == (503, "ServiceUnavailable")
                assert kept.closed == (1001, "the server ends this connection")
                await asyncio.sleep(1)
                assert kept.tunnel.closed
                assert await game.read() == b""
                assert not game.tunnel.aborted
            assert sorted(parrots._ended) == ["cancelled", "chess", "h"]


@walk
async def test_a_method_that_will_not_be_cancelled_is_waited_for() -> None:
    api, _ = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        async with api.connect(f"{EXEC}?command=stubborn") as client:
            await asyncio.sleep(1)
            api.parts.resources.router.watches.end_all()
            await asyncio.sleep(1)
            assert not client.tunnel.closed
            assert (await client.outcome())["code"] == 503
            assert client.closed == (1001, "the server ends this connection")
            client.tunnel.to_server._chunks.clear()  # and one that never answers the Close
            await asyncio.sleep(10)
            assert client.tunnel.closed


@walk
async def test_numbered_channels() -> None:
    api, _ = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        async with api.connect(f"{PARROTS}/h/lines") as client:
            assert [await client.receive() for _ in range(3)] == [(0, b"\0"), (3, b"\3"), (5, b"\5")]
            client.send(5, b"abc")
            assert await client.rest() == {3: b"cba"}
            assert client.closed == (1000, "")
        async with api.connect(f"{PARROTS}/h/lines?fail=true") as client:
            assert 3 in await client.rest()
            assert client.closed == (1011, "all lines are busy")


@walk
async def test_a_protocol_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    api, parrots = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        chess = f"{PARROTS}/h/chess"
        async with api.upgrade(chess, "bridge, CHECKERS, chess/1") as game:
            assert await game.read() == b"h plays Checkers\n"
            game.write(b"e4")
            assert await game.read() == b"E4"
            game.write(b"bye")
            assert await game.read() == b"BYE"
            assert await game.read() == b""
            assert not game.tunnel.aborted
        async with api.upgrade(chess, "chess/1") as game:
            await game.read()
        await asyncio.sleep(1)
        async with api.upgrade(f"{chess}?fail=1", "chess/1") as game:
            await game.read()
            assert await game.read() == b""
            assert game.tunnel.aborted
        assert parrots._ended == ["chess"] * 3
        refused = failure(await api.request("GET", chess, None, {"connection": "upgrade", "upgrade": "bridge"}))
        assert refused[:2] == (400, "BadRequest")
        assert "chess/1, Checkers is spoken" in refused[2]
        assert failure(await api.request("POST", chess, {}, {}))[2] == "Upgrade request required"


class Clerk(Authorizer):
    """Lets everybody get, and only some create."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def decide(self, user: User, target: Target) -> Decision:
        self.asked.append((target.verb, target.subresource))
        refused = target.subresource == "exec" and target.verb == "create"
        return Decision(Outcome.DENY if refused else Outcome.ALLOW)


@walk
async def test_reading_is_not_enough_to_connect() -> None:
    clerk = Clerk()
    api, _ = birds(authorizer=clerk)
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        clerk.asked.clear()
        code, reason, message = failure(await api.request("GET", EXEC, None, WEBSOCKET))
        assert (code, reason) == (403, "Forbidden")
        assert 'cannot create resource "parrots/exec"' in message
        assert clerk.asked == [("get", "exec"), ("create", "exec")]
        assert failure(await api.request("POST", EXEC, None, WEBSOCKET))[0] == 403
        clerk.asked.clear()
        async with api.upgrade(f"{PARROTS}/h/chess", "chess/1"):
            assert clerk.asked == [("get", "chess"), ("create", "chess")]


SEEN: list[tuple[Any, ...]] = []
HEARD: list[tuple[str, str, bool]] = []


class Keeper(Admission[Resource], operations=["CONNECT"], subresources=["exec"]):
    """Has a say in what parrots are told."""

    async def validate(self, review: Review[Resource]) -> None:
        SEEN.append((review.operation, review.name, review.new, review.old_object, dict(review.ctx.options)))
        if review.ctx.options.get("command") == ["rm"]:
            raise Denied("not with my parrot")


class Listener(Admission[Parrot], operations=["CONNECT", "CREATE"], subresources=["exec"]):
    """Hears of every parrot, and of those who talk with one."""

    async def mutate(self, review: Review[Parrot]) -> None:
        HEARD.append((review.operation, review.name, review.new is None))
        if review.new is None:
            with pytest.raises(LookupError, match=r"only review\.ctx\.options"):
                assert review.object


class Deaf(Admission[Parrot], operations=["CONNECT"]):
    """Names no subresource, so it never hears of one."""

    async def validate(self, review: Review[Parrot]) -> None:
        raise Denied("never")


@walk
async def test_admission_is_asked_before_the_upgrade() -> None:
    SEEN.clear()
    HEARD.clear()
    api, parrots = birds(admission=[Keeper(), Listener(), Deaf()])
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})
        denied = failure(await api.request("GET", f"{EXEC}?command=rm", None, WEBSOCKET))
        assert denied == (403, "Forbidden", 'parrots.walk.example.com "h" is forbidden: not with my parrot')
        assert parrots._ended == []
        async with api.connect(f"{EXEC}?command=ls&stdin=1") as client:
            await client.receive()
        assert SEEN == [
            ("CONNECT", "h", None, None, {"command": ["rm"]}),
            ("CONNECT", "h", None, None, {"command": ["ls"], "stdin": True}),
        ]
        assert HEARD == [("CREATE", "h", False), ("CONNECT", "h", True), ("CONNECT", "h", True)]


@walk
async def test_it_is_counted() -> None:
    api, _ = birds()
    async with api:
        await made(api, PARROTS, {"metadata": {"name": "h"}})

        async def lines(name: str) -> list[str]:
            page = (await api.get("/metrics")).body.decode().splitlines()
            return [one for one in page if one.startswith(f"{name}{{") and 'subresource="exec"' in one]

        async with api.connect(EXEC):
            (running,) = await lines("apiserver_longrunning_requests")
            assert 'verb="CONNECT"' in running
            assert running.endswith(" 1.0")
        (running,) = await lines("apiserver_longrunning_requests")
        assert running.endswith(" 0.0")
        (answered,) = await lines("apiserver_request_total")
        assert 'code="101"' in answered
        assert 'verb="CONNECT"' in answered


class Ghost(Resource, group=GROUP, version="v1"):
    """Kept nowhere."""


class Ghosts(VirtualCollection[Ghost]):
    async def get(self, name: str, ctx: Context) -> Ghost | None:
        return Ghost() if name == "boo" else None

    @subresource("attach", connect=True)
    async def attach(self, channels: Channels) -> None:
        await channels.stdout.write(await channels.stdin.read())


@walk
async def test_a_virtual_resource_connects_too() -> None:
    async with InMemory(APIServer(serve=[Ghosts])) as api:
        ghosts = path("ghosts", version="v1")
        assert failure(await api.request("GET", f"{ghosts}/casper/attach", None, WEBSOCKET))[0] == 404
        async with api.connect(f"{ghosts}/boo/attach") as client:
            client.send(0, b"hu")
            assert await client.receive() == (1, b"hu")


@walk
async def test_what_clients_are_told() -> None:
    api, _ = birds()
    async with api:
        found = (await api.get(f"/apis/{GROUP}/v1")).json["resources"]
        listed = next(one for one in found if one["name"] == "parrots/exec")
        assert (listed["kind"], listed["verbs"]) == ("Parrot", ["create", "get"])
        where = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/parrots/{{name}}/exec"
        new = (await api.get(f"/openapi/v3/apis/{GROUP}/v1")).json["paths"][where]
        old = (await api.get("/openapi/v2")).json["paths"][where]
        for methods in (new, old):
            assert {"get", "post"} == {name for name in methods if name != "parameters"}
            for method in ("get", "post"):
                operation = methods[method]
                assert operation["x-kubernetes-action"] == "connect"
                assert operation["operationId"] == (f"connectWalkExampleComV1{method.title()}NamespacedParrotExec")
                assert [one["name"] for one in operation["parameters"]] == ["command", "stdin"]
                assert "requestBody" not in operation
        assert new["get"]["responses"]["200"]["content"] == {"*/*": {"schema": {"type": "string"}}}
        assert old["post"]["responses"]["200"]["schema"] == {"type": "string"}


def test_mistakes() -> None:
    async def plain(self: Any, channels: Channels) -> None: ...

    for options, words in (
        ({"connect": True, "upgrade": "chess"}, "different ways to connect"),
        ({"upgrade": "web socket"}, "is no protocol of yours"),
        ({"upgrade": "WebSocket"}, "is no protocol of yours"),
        ({"numbered": 2}, "numbered=2"),
        ({"connect": True, "numbered": 256}, "numbered=256"),
    ):
        with pytest.raises(DeclarationError, match=words):
            subresource("exec", **options)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="it can't connect"):
        subresource("exec", connect=True, method="GET")(plain)
    with pytest.raises(DeclarationError, match="the server has no 'body' to give"):

        class A(StoredCollection[Parrot]):
            @subresource("exec", connect=True)
            async def exec(self, body: Parrot, channels: Channels) -> None: ...

    with pytest.raises(DeclarationError, match="it connects and takes no 'pipe'"):

        class B(StoredCollection[Parrot]):
            @subresource("exec", upgrade="chess")
            async def exec(self, name: str) -> None: ...
