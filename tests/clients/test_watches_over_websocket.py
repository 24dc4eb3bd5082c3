"""Watches over WebSocket with real clients, over TLS: ``websockets``, ``websocket-client``, and a socket."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import websocket
import websockets
from server_process import ServerProcess
from websockets.typing import Subprotocol

FLUNDERS = "/apis/wardle.example.com/v1alpha1/namespaces/{}/flunders"
DEADLINE_S = 20.0

# websocket-client leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.usefixtures("sockets_collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def where(server: ServerProcess, namespace: str, query: str = "") -> str:
    return f"wss://127.0.0.1:{server.port}{FLUNDERS.format(namespace)}?watch=1{query}"


def trusting(server: ServerProcess) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(server.ca))


def named(text: Any) -> tuple[str, str]:
    event = json.loads(text)
    return event["type"], event["object"]["metadata"]["name"]


def test_websockets_watches_and_says_goodbye(
    api: Callable[[ServerProcess], Any], wardle: ServerProcess, namespace: str
) -> None:
    ask = api(wardle)

    async def run() -> None:
        bearer = {"authorization": f"Bearer {wardle.token}"}
        async with websockets.connect(
            where(wardle, namespace),
            ssl=trusting(wardle),
            additional_headers=bearer,
            origin=websockets.Origin("https://console.example.com"),
        ) as client:
            assert client.subprotocol is None
            for name in ("a", "b"):
                await asyncio.to_thread(ask, "POST", FLUNDERS.format(namespace), {"metadata": {"name": name}})
            assert named(await client.recv()) == ("ADDED", "a")
            assert named(await client.recv()) == ("ADDED", "b")
            await (await client.ping())
            await asyncio.to_thread(ask, "DELETE", FLUNDERS.format(namespace) + "/a")
            assert named(await client.recv()) == ("DELETED", "a")
        assert client.close_code == 1000

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


def test_the_server_closes_when_the_time_is_up(
    api: Callable[[ServerProcess], Any], wardle: ServerProcess, namespace: str
) -> None:
    api(wardle)("POST", FLUNDERS.format(namespace), {"metadata": {"name": "a"}})

    async def run() -> None:
        async with websockets.connect(
            where(wardle, namespace, "&timeoutSeconds=1"),
            ssl=trusting(wardle),
            additional_headers={"authorization": f"Bearer {wardle.token}", "accept": "application/cbor"},
            origin=websockets.Origin("https://console.example.com"),
            subprotocols=[Subprotocol("binary.k8s.io")],
        ) as client:
            assert client.subprotocol == "binary.k8s.io"
            events = [event async for event in client]
            assert [type(event) for event in events] == [bytes]
            assert b"ADDED" in events[0]
        assert (client.close_code, client.close_reason) == (1000, "")

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


def test_a_browser_shows_its_token_as_a_subprotocol(wardle: ServerProcess, namespace: str) -> None:
    """`peertoken` in base64url; a browser can't send an Authorization header."""

    async def run() -> None:
        offered = [Subprotocol("base64url.bearer.authorization.k8s.io.cGVlcnRva2Vu"), Subprotocol("console")]
        async with websockets.connect(
            where(wardle, namespace, "&timeoutSeconds=1"),
            ssl=trusting(wardle),
            origin=websockets.Origin("https://console.example.com"),
            subprotocols=offered,
        ) as client:
            assert client.subprotocol == "console"

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


@pytest.mark.parametrize(("headers", "status"), [({}, 401), ({"authorization": "Bearer peertoken"}, 403)])
def test_who_may_not_is_answered_in_http(
    wardle: ServerProcess, namespace: str, headers: dict[str, str], status: int
) -> None:
    """Without a credential; and without an origin."""

    async def run() -> None:
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(where(wardle, namespace), ssl=trusting(wardle), additional_headers=headers):
                pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["code"] == status

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


def test_websocket_client_watches(api: Callable[[ServerProcess], Any], wardle: ServerProcess, namespace: str) -> None:
    client = websocket.create_connection(
        where(wardle, namespace),
        timeout=DEADLINE_S,
        header=[f"Authorization: Bearer {wardle.token}"],
        sslopt={"ca_certs": str(wardle.ca)},
    )
    try:
        api(wardle)("POST", FLUNDERS.format(namespace), {"metadata": {"name": "a"}})
        assert named(client.recv()) == ("ADDED", "a")
        client.ping("there?")
        opcode, data = client.recv_data(control_frame=True)
        assert (opcode, bytes(data)) == (websocket.ABNF.OPCODE_PONG, b"there?")
    finally:
        client.close()


def test_a_server_that_leaves_closes_its_watches(restartable: ServerProcess, namespace: str) -> None:
    client = websocket.create_connection(
        f"wss://127.0.0.1:{restartable.port}/apis/hello.zeng.dev/v2/namespaces/{namespace}/foos?watch=1",
        timeout=DEADLINE_S,
        header=[f"Authorization: Bearer {restartable.token}"],
        sslopt={"ca_certs": str(restartable.ca)},
    )
    try:
        restartable.stop()
        opcode, data = client.recv_data()
        assert (opcode, int.from_bytes(data[:2], "big")) == (websocket.ABNF.OPCODE_CLOSE, 1000)
    finally:
        client.close()
