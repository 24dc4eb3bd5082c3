"""Subresources that answer with a stream, over TLS, with kubectl and with the plainest client."""

from __future__ import annotations

import socket
import ssl
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from kubectl import Kubectl
from server_process import ServerProcess

FOOS = "/apis/hello.zeng.dev/v2/namespaces/{}/foos"


@pytest.fixture
def log(api: Callable[[ServerProcess], Any], hello: ServerProcess, namespace: str) -> str:
    """The path of the log of a foo that says hi."""
    spec = {"image": "busybox", "config": {"msg": "hi"}}
    api(hello)("POST", FOOS.format(namespace), {"metadata": {"name": "foo"}, "spec": spec})
    return f"{FOOS.format(namespace)}/foo/log"


@pytest.mark.kubectl("1.20")
def test_kubectl_reads_a_log(kubectl: Kubectl, log: str) -> None:
    assert kubectl("get", "--raw", log).out == "foo: hi\n"
    assert "it must be true or false" in kubectl.fails("get", "--raw", f"{log}?follow=perhaps")
    with kubectl.running("get", "--raw", f"{log}?follow=true") as following:
        assert [following.line() for _ in range(3)] == ["foo: hi"] * 3
        assert following.still_runs()


def test_a_followed_log_ends_with_its_client(hello: ServerProcess, log: str) -> None:
    following = socket.create_connection(("127.0.0.1", hello.port), timeout=60)
    with hello.tls().wrap_socket(following, server_hostname="127.0.0.1") as connection:
        head = f"GET {log}?follow=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {hello.token}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
        assert open_logs(hello) == "1.0"
    until = time.monotonic() + 20
    while open_logs(hello) != "0.0" and time.monotonic() < until:
        time.sleep(0.02)
    assert open_logs(hello) == "0.0"


def open_logs(server: ServerProcess) -> str:
    request = urllib.request.Request(f"{server.url}/metrics", headers={"Authorization": f"Bearer {server.token}"})
    tls: ssl.SSLContext = server.tls()
    with urllib.request.urlopen(request, context=tls, timeout=60) as answer:
        page = answer.read().decode()
    wanted = 'subresource="log"'
    lines = [one for one in page.splitlines() if one.startswith("apiserver_longrunning_requests{") and wanted in one]
    return lines[0].rpartition(" ")[2] if lines else ""
