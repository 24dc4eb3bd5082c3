"""Subresources that connect, over TLS, with real clients: kubectl, ``kubernetes``, ``websockets`` and plain sockets."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from kubectl import Answer, Kubectl
from kubernetes import client as k8s
from kubernetes import config as k8s_config
from kubernetes.stream import portforward, stream, ws_client
from server_process import ServerProcess
from websockets.asyncio.client import ClientConnection

FOOS = "/apis/hello.zeng.dev/v2/namespaces/{}/foos"
DEADLINE_S = 120.0

# The client of Kubernetes leaves sockets to the garbage collector when it is refused.
pytestmark = [
    pytest.mark.usefixtures("sockets_collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def exec_path(api: Callable[[ServerProcess], Any], hello: ServerProcess, namespace: str) -> str:
    """Where a foo that says hi is talked with."""
    spec = {"image": "busybox", "config": {"msg": "hi"}}
    api(hello)("POST", FOOS.format(namespace), {"metadata": {"name": "foo"}, "spec": spec})
    return f"{FOOS.format(namespace)}/foo/exec"


@pytest.fixture(scope="session")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    program = Path(__file__).parent / "pods" / "server.py"
    with ServerProcess(tmp_path_factory.mktemp("pods"), program, "memory://") as server:
        yield server


@pytest.fixture
def pod(api: Callable[[ServerProcess], Any], pods: ServerProcess, namespace: str) -> str:
    """The namespace of a pod called p."""
    containers = [{"name": "main", "stdin": True}]
    api(pods)(
        "POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    )
    return namespace


# kubernetes


def configuration(server: ServerProcess) -> k8s.Configuration:
    made = k8s.Configuration()
    k8s_config.load_kube_config(str(server.kubeconfig), client_configuration=made)
    return made


def talk(server: ServerProcess, path: str, *command: str) -> ws_client.WSClient:
    made = configuration(server)
    return ws_client.websocket_call(
        made,
        "GET",
        server.url + path,
        query_params=[("command", word) for word in command],
        headers={"authorization": f"Bearer {server.token}"},
        _preload_content=False,
    )


def test_the_client_of_kubernetes_talks_with_a_foo(hello: ServerProcess, exec_path: str) -> None:
    said = talk(hello, exec_path, "say")
    assert said.subprotocol == "v5.channel.k8s.io"
    said.run_forever(timeout=DEADLINE_S)
    assert said.read_stdout() == "hi\n"
    assert said.returncode == 0
    echo = talk(hello, exec_path, "cat")
    for text in ("one\n", "two\n"):
        echo.write_stdin(text)
        assert echo.readline_stdout(timeout=DEADLINE_S) + "\n" == text
    echo.write_stdin("x" * 300_000 + "\n")
    assert echo.readline_stdout(timeout=DEADLINE_S) == "x" * 300_000
    echo.close_channel(ws_client.STDIN_CHANNEL)
    echo.run_forever(timeout=DEADLINE_S)
    assert echo.returncode == 0
    failed = talk(hello, exec_path, "exit", "42")
    failed.run_forever(timeout=DEADLINE_S)
    assert failed.returncode == 42
    unknown = talk(hello, exec_path, "rm", "-rf")
    unknown.run_forever(timeout=DEADLINE_S)
    assert unknown.read_stderr() == "rm -rf: say, cat, size or exit N\n"
    assert unknown.returncode == 127
    sized = talk(hello, exec_path, "size")
    sized.write_channel(ws_client.RESIZE_CHANNEL, json.dumps({"Width": 132, "Height": 43}))
    assert sized.readline_stdout(timeout=DEADLINE_S) == "132x43"
    for one in (said, echo, failed, unknown, sized):
        one.close()


def test_the_client_of_kubernetes_talks_with_a_pod(pods: ServerProcess, pod: str) -> None:
    core = k8s.CoreV1Api(k8s.ApiClient(configuration(pods)))
    said = stream(core.connect_get_namespaced_pod_exec, "p", pod, command=["date", "-u"], container="main", stdout=True)
    assert said == "date -u in main\n"
    with pytest.raises(k8s.ApiException, match="400"):
        stream(core.connect_get_namespaced_pod_exec, "p", pod, command=["date"], container="none")
    with pytest.raises(k8s.ApiException, match="404"):
        stream(core.connect_get_namespaced_pod_exec, "q", pod, command=["date"])
    attached = stream(core.connect_get_namespaced_pod_attach, "p", pod)
    assert attached == "attached\n"


def test_the_client_of_kubernetes_forwards_a_port(pods: ServerProcess, pod: str) -> None:
    core = k8s.CoreV1Api(k8s.ApiClient(configuration(pods)))
    forwarded = portforward(core.connect_get_namespaced_pod_portforward, "p", pod, ports="8080")
    end = forwarded.socket(8080)
    end.settimeout(DEADLINE_S)
    end.sendall(b"hello")
    assert end.recv(100) == b"HELLO"
    end.close()


# kubectl


@pytest.fixture
def pods_kubectl(kubectl_at: Callable[[ServerProcess], Kubectl], pods: ServerProcess) -> Kubectl:
    return kubectl_at(pods)


def heard_whole(kubectl: Kubectl, *arguments: str, stdin: str | None = None) -> Answer:
    """What a command said. kubectl 1.32 may begin to read before it has made its streams, and drops what comes then.

    It says so, and only then is the command given again.
    """
    for _ in range(5):
        ran = kubectl.run(*arguments, stdin=stdin)
        if "Unknown stream id" not in ran.err:
            break
    return ran


@pytest.mark.kubectl("1.31")  # speaks WebSocket; before, it spoke SPDY
def test_kubectl_exec(pods_kubectl: Kubectl, pod: str) -> None:
    kubectl = pods_kubectl
    assert heard_whole(kubectl, "exec", "-n", pod, "p", "--", "date", "-u").out == "date -u in main\n"
    piped = heard_whole(kubectl, "exec", "-i", "-n", pod, "p", "--", "cat", stdin="one\ntwo\n" * 10_000)
    begins, rest = piped.out[:12], piped.out[12:]
    assert (begins, len(rest), rest.replace("one\ntwo\n", "")) == ("cat in main\n", 80_000, ""), piped.err
    failed = heard_whole(kubectl, "exec", "-n", pod, "p", "--", "fail")
    assert failed.code == 3
    assert failed.err == "it failed\ncommand terminated with exit code 3\n"
    assert 'pods "none" not found' in kubectl.fails("exec", "none", "--", "date")
    assert "attached" in heard_whole(kubectl, "attach", "-n", pod, "p").out


# websockets


def connecting(server: ServerProcess, path: str, *protocols: str) -> Any:
    return websockets.connect(
        f"wss://127.0.0.1:{server.port}{path}",
        ssl=server.tls(),
        subprotocols=list(protocols) or None,  # type: ignore[arg-type]
        additional_headers={"Authorization": f"Bearer {server.token}"},
    )


async def heard(connection: ClientConnection) -> dict[int, bytes]:
    """Everything until the server closes, by channel."""
    found: dict[int, bytes] = {}
    async for message in connection:
        data = message if isinstance(message, bytes) else message.encode()
        found[data[0]] = found.get(data[0], b"") + data[1:]
    return found


def test_websockets_talks_with_a_foo(hello: ServerProcess, exec_path: str) -> None:
    async def run() -> None:
        async with connecting(hello, f"{exec_path}?command=cat", "v4.channel.k8s.io") as connection:
            assert connection.subprotocol == "v4.channel.k8s.io"
            pong = await connection.ping()
            await asyncio.wait_for(pong, DEADLINE_S)
            assert await connection.recv() == b"\1"
            await connection.send([b"\0", b"in ", b"frag", b"ments"])
            answer = b""
            while len(answer) < 12:
                answer += (await connection.recv())[1:]
            assert answer == b"in fragments"
        async with connecting(hello, f"{exec_path}?command=say", "base64.channel.k8s.io") as connection:
            texts = [message async for message in connection]
            assert "".join(str(text)[1:] for text in texts) == base64.b64encode(b"hi\n").decode()
            assert {str(text)[0] for text in texts} == {"1"}
        async with connecting(hello, f"{exec_path}?command=exit&command=9", "v5.channel.k8s.io") as connection:
            told = json.loads((await heard(connection))[3])
            assert told["details"]["causes"] == [{"reason": "ExitCode", "message": "9"}]
            assert connection.close_code == 1000
        with pytest.raises(websockets.InvalidStatus) as refused:
            await connecting(hello, exec_path, "soap")
        assert refused.value.response.status_code == 403
        assert json.loads(refused.value.response.body or b"")["reason"] == "Forbidden"

    asyncio.run(run())


def test_a_browser_offers_its_token_as_a_subprotocol(hello: ServerProcess, exec_path: str) -> None:
    token = base64.urlsafe_b64encode(hello.token.encode()).decode().rstrip("=")
    offered = f"base64url.bearer.authorization.k8s.io.{token}"

    async def attempt(*protocols: str) -> str | None:
        uri = f"wss://127.0.0.1:{hello.port}{exec_path}?command=date"
        offers: Any = list(protocols)
        async with websockets.connect(uri, ssl=hello.tls(), subprotocols=offers) as connection:
            return connection.subprotocol

    assert asyncio.run(attempt(offered, "v5.channel.k8s.io")) == "v5.channel.k8s.io"
    for protocols in (("v5.channel.k8s.io",), (offered,), (f"{offered}x", "v5.channel.k8s.io")):
        with pytest.raises(websockets.InvalidStatus) as refused:
            asyncio.run(attempt(*protocols))
        assert refused.value.response.status_code == 401


def test_a_server_that_is_told_to_leave_says_goodbye(
    restartable: ServerProcess, api: Callable[[ServerProcess], Any]
) -> None:
    spec = {"image": "busybox", "config": {"msg": "hi"}}
    api(restartable)("POST", FOOS.format("default"), {"metadata": {"name": "foo"}, "spec": spec})

    async def run() -> None:
        where = f"{FOOS.format('default')}/foo/exec?command=cat"
        async with connecting(restartable, where, "v5.channel.k8s.io") as connection:
            await connection.recv()
            await asyncio.to_thread(restartable.stop)
            told = json.loads((await heard(connection))[3])
            assert told["reason"] == "ServiceUnavailable"
            assert connection.close_code == 1001

    asyncio.run(run())
    assert "ERROR" not in restartable.log


# plain sockets


def shaking_hands(server: ServerProcess, path: str, version: str = "1.1") -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET {path} HTTP/{version}\r\nHost: x\r\nConnection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    ).encode()


def connected(server: ServerProcess) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
    return server.tls().wrap_socket(plain, server_hostname="127.0.0.1")


def test_an_older_http_has_no_upgrades(hello: ServerProcess, exec_path: str) -> None:
    with connected(hello) as connection:
        connection.sendall(shaking_hands(hello, exec_path, "1.0"))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x82\x02\x00\x41", 1002),  # not masked
        (b"\x83\x80mask", 1002),  # no such opcode
        (b"\xc2\x80mask", 1002),  # a reserved bit
        (b"\x09\x80mask", 1002),  # a ping in fragments
        (b"\x80\x80mask", 1002),  # goes on with nothing
        (b"\x81\x82\0\0\0\0\x00\xff", 1007),  # a text that is none
        (b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"\0\0\0\0" + b"\1" * (33 << 20), 1009),
        (b"\x82\x82\0\0\0\0\x07x", 1008),  # no such channel
        (b"\x88\x82\0\0\0\0\x03\xe8", 1000),  # goodbye
        (b"\x88\x82\0\0\0\0\x03\xed", 1002),  # with a code that nobody sends
        (b"\x88\x81\0\0\0\0\x03", 1002),  # with half a code
    ],
)
def test_broken_frames_are_answered_with_a_close(hello: ServerProcess, exec_path: str, sent: bytes, code: int) -> None:
    with connected(hello) as connection:
        connection.sendall(shaking_hands(hello, f"{exec_path}?command=cat"))
        answer = b""
        while not answer.endswith(b"\r\n\r\n\x82\x01\x01"):
            answer += connection.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 101 ")
        try:
            connection.sendall(sent)
        except OSError:
            assert code == 1009  # it doesn't wait for the rest
        answer = connection.recv(1 << 16)
        while len(answer) < 2 + answer[1]:
            answer += connection.recv(1 << 16)
        assert answer[0] == 0x88
        assert int.from_bytes(answer[2:4], "big") == code
