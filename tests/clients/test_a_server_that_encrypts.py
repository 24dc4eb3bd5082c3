"""Servers as processes: what is in the store's file is encrypted, a key is replaced, and a plugin holds the keys."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kms_plugin import KmsPlugin
from server_process import ServerProcess

pytestmark = pytest.mark.slow

PROGRAM = """
from oarlock import APIServer, Resource, StoredCollection, Model

class PasswordSpec(Model):
    password: str

class Password(Resource, group="vault.example.com", version="v1"):
    spec: PasswordSpec

class Passwords(StoredCollection[Password]):
    pass

server = APIServer(serve=[Passwords])
"""
PASSWORDS = "/apis/vault.example.com/v1/namespaces/default/passwords"


def configuration(path: Path, *providers: Any) -> Path:
    """Replaced in one step, as a mounted Secret is."""
    tree = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["passwords.vault.example.com"], "providers": list(providers)}],
    }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(tree))
    new.chmod(0o600)
    os.replace(new, path)
    return path


def keyed(kind: str, *names: str) -> dict[str, Any]:
    keys = [{"name": name, "secret": base64.b64encode(name.encode().ljust(32)).decode()} for name in names]
    return {kind: {"keys": keys}}


def ask(server: ServerProcess, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(server.url + path, method=method)
    request.add_header("authorization", f"Bearer {server.token}")
    request.add_header("content-type", "application/json")
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, data, context=server.tls(), timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text[:1] == b"{" else text.decode()


def password(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"password": f"hunter2-{name}"}}


def names(server: ServerProcess) -> list[str]:
    return [one["metadata"]["name"] for one in ask(server, "GET", PASSWORDS)["items"]]


def in_the_file(store: Path) -> bytes:
    """Whatever SQLite's files hold."""
    return b"".join(file.read_bytes() for file in store.parent.glob(store.name + "*") if file.is_file())


def eventually(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.1)


def test_two_servers_a_key_replaced_without_a_restart_and_what_is_in_the_file(tmp_path: Path) -> None:
    program = tmp_path / "vault.py"
    program.write_text(PROGRAM)
    store, file = tmp_path / "store.db", tmp_path / "encryption.yaml"
    configuration(file, keyed("secretbox", "old"), keyed("aesgcm", "new"))
    options = ["--encryption-provider-config", str(file), "--encryption-provider-config-automatic-reload"]
    storage = f"sqlite:///{store}"
    with (
        ServerProcess(tmp_path / "one", program, storage, options) as one,
        ServerProcess(tmp_path / "two", program, storage, options) as two,
    ):
        for number, server in enumerate((one, two) * 3):
            ask(server, "POST", PASSWORDS, password(f"p{number}"))
        assert names(one) == names(two) == [f"p{number}" for number in range(6)]
        assert ask(two, "GET", f"{PASSWORDS}/p0")["spec"] == {"password": "hunter2-p0"}
        data = in_the_file(store)
        assert b"hunter2" not in data
        assert data.count(b"k8s:enc:secretbox:v1:old:") >= 6

        configuration(file, keyed("aesgcm", "new"), keyed("secretbox", "old"))
        eventually(lambda: _reloads(one) == _reloads(two) == 1, "the file is read again")
        told = one.oarlock("storage", "migrate", str(program), "--storage", storage, *options[:2])
        assert told.stdout == "passwords.vault.example.com: 6 of 6 rewritten as v1, 6 of them encrypted anew\n"
        assert names(one) == names(two) == [f"p{number}" for number in range(6)]

        other = configuration(tmp_path / "other.yaml", keyed("aesgcm", "lost"))
        with pytest.raises(subprocess.CalledProcessError) as failed:
            one.oarlock("storage", "check", "--storage", storage, "--encryption-provider-config", str(other))
        assert failed.value.stdout.count("a key that") == 6
        assert 'aesgcm key "new"' in failed.value.stdout
        assert "hunter2" not in one.log + two.log
        assert base64.b64encode(b"old".ljust(32)).decode() not in one.log + two.log


def _reloads(server: ServerProcess) -> int:
    text = ask(server, "GET", "/metrics")
    line = 'apiserver_encryption_config_controller_automatic_reloads_total{status="success"} '
    return int(float(text.partition(line)[2].splitlines()[0]))


@contextmanager
def running(socket: Path) -> Iterator[KmsPlugin]:
    """A plugin in a thread, with a loop of its own."""
    plugin = KmsPlugin(socket)
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with plugin:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield plugin
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)
        loop.close()


def test_a_plugin_holds_the_keys_and_its_failure_is_told(tmp_path: Path) -> None:
    program = tmp_path / "vault.py"
    program.write_text(PROGRAM)
    store = tmp_path / "store.db"
    with running(tmp_path / "kms.sock") as plugin:
        kms = {"kms": {"apiVersion": "v2", "name": "vault", "endpoint": plugin.endpoint, "timeout": "10s"}}
        file = configuration(tmp_path / "encryption.yaml", kms)
        options = ["--encryption-provider-config", str(file)]
        with ServerProcess(tmp_path / "server", program, f"sqlite:///{store}", options) as server:
            for number in range(20):
                ask(server, "POST", PASSWORDS, password(f"p{number}"))
            assert plugin.count("Encrypt") == 1
            assert ask(server, "GET", "/healthz/kms-provider-0") == "ok"
            assert "[+]kms-providers ok" in ask(server, "GET", "/readyz?verbose")
            server.restart()
            assert len(names(server)) == 20
            assert (plugin.count("Encrypt"), plugin.count("Decrypt")) == (2, 1)
        assert b"hunter2" not in in_the_file(store)
        assert b"k8s:enc:kms:v2:vault:" in in_the_file(store)
