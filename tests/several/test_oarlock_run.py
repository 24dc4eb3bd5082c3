"""``oarlock run``: controllers in processes of their own; one leads, and one that was stopped writes no more."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fleet_controllers import Ship, fleet_server

from oarlock import ObjectMeta
from oarlock.client import Client, connect
from oarlock.testing import ServerThread

pytestmark = pytest.mark.anyio

FILE = Path(__file__).with_name("fleet_controllers.py")


class RunProcess:
    """An ``oarlock run``, whose lines can be waited for."""

    def __init__(self, captain: str, kubeconfig: Path, *options: str) -> None:
        command = [sys.executable, "-m", "oarlock", "run", str(FILE), "--kubeconfig", str(kubeconfig), *options]
        environment = {**os.environ, "CAPTAIN": captain, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True)
        self.lines: list[str] = []

    async def told(self, pattern: str) -> str:
        """The first line that matches, of those not looked at yet."""
        assert self.process.stderr is not None
        while line := await asyncio.wait_for(asyncio.to_thread(self.process.stderr.readline), 60):
            self.lines.append(line)
            if re.search(pattern, line):
                return line
        raise AssertionError(f"no line matched {pattern}: {self.lines}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@asynccontextmanager
async def fleet() -> AsyncIterator[tuple[Client, Path]]:
    with ServerThread(fleet_server()) as running:
        async with connect(running.kubeconfig) as client:
            await client.create(Ship(metadata=ObjectMeta(name="a", namespace="sea")))
            yield client, running.kubeconfig


async def until_by(client: Client, captain: str) -> str:
    """The resourceVersion of the first write by `captain` from now on."""
    async with asyncio.timeout(60):
        async for event in client.watch(Ship, namespace="sea"):
            if event.object.by == captain:
                return event.resource_version
    raise AssertionError("a watch has no end")


async def test_it_says_what_it_does_has_metrics_and_stops_in_order() -> None:
    async with fleet() as (client, kubeconfig):
        run = RunProcess("ahab", kubeconfig, "--metrics-bind-address", "127.0.0.1:0", "-v", "1")
        try:
            address = re.search(r"http://\S+", await run.told("metrics at"))
            await run.told(r"^oarlock: connected to https://127\.0\.0\.1:\d+")
            await run.told("^oarlock: synced: rounds$")
            await until_by(client, "ahab")
            assert address is not None
            page = await asyncio.to_thread(lambda: urllib.request.urlopen(address[0]).read().decode())
            total = r'^controller_runtime_reconcile_total\{controller="rounds",result="requeue_after"\} [1-9]'
            assert re.search(total, page, re.MULTILINE)
            run.process.send_signal(signal.SIGTERM)
            await run.told("^oarlock: stopping$")
            await run.told("^oarlock: stopped$")
            assert await asyncio.to_thread(run.process.wait, 60) == 0
        finally:
            run.kill()


async def test_a_server_that_is_not_there_is_told_and_waited_for(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a}}], "
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]}"
    )
    run = RunProcess("ahab", kubeconfig)
    try:
        await run.told(r"^oarlock: the server can't be reached, trying again in 1 s: http://127\.0\.0\.1:9: ")
        await run.told("trying again in 2 s")
        run.process.send_signal(signal.SIGTERM)
        await run.told("^oarlock: stopped$")
        assert await asyncio.to_thread(run.process.wait, 60) == 0
    finally:
        run.kill()


@pytest.mark.slow
async def test_a_leader_that_was_stopped_and_goes_on_writes_nothing_more() -> None:
    options = ("--leader-elect", "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=2s")
    options += ("--leader-elect-retry-period=500ms",)
    async with fleet() as (client, kubeconfig):
        first = RunProcess("ahab", kubeconfig, *options)
        second = None
        try:
            await first.told("leads: it holds the lease default/fleet-controllers")
            await until_by(client, "ahab")
            second = RunProcess("nemo", kubeconfig, *options)
            await second.told("connected to")
            for _ in range(int(os.environ.get("OARLOCK_ROUNDS", "1"))):
                leads = (await client.get(Ship, "a", namespace="sea")).by
                stopped, follower = (first, "nemo") if leads == "ahab" else (second, "ahab")
                os.kill(stopped.process.pid, signal.SIGSTOP)
                version = await until_by(client, follower)
                os.kill(stopped.process.pid, signal.SIGCONT)
                await stopped.told("doesn't lead any more")
                writers = await written_after(client, version, 60)
                assert writers == {follower}
        finally:
            os.kill(first.process.pid, signal.SIGCONT)
            first.kill()
            if second is not None:
                second.kill()


async def written_after(client: Client, version: str, count: int) -> set[str]:
    """Who wrote the next so many times."""
    writers: list[str] = []
    async with asyncio.timeout(60):
        async for event in client.watch(Ship, namespace="sea", resource_version=version):
            writers.append(event.object.by)
            if len(writers) == count:
                break
    return set(writers)


async def test_webhooks_are_served_beside_controllers_in_one_process(tmp_path: Path) -> None:
    config = tmp_path / "webhooks.json"
    head = {"apiVersion": "config.oarlock.dev/v1alpha1", "kind": "ServerConfiguration"}
    config.write_text(json.dumps({**head, "securePort": 0, "dataDir": str(tmp_path)}))
    group, kind = Ship.__declared__.group, "Ship"
    place = {"group": group, "version": "v1"}
    request = {
        "uid": "u",
        "kind": {**place, "kind": kind},
        "resource": {**place, "resource": "ships"},
        "operation": "CREATE",
        "object": {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "b", "namespace": "sea"}},
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    async with fleet() as (client, kubeconfig):
        run = RunProcess("ahab", kubeconfig, "--webhooks", "--webhooks-config", str(config))
        try:
            url = re.search(r"https://\S+?(?=,)", await run.told("reviews at"))
            assert url is not None
            asked = urllib.request.Request(
                f"{url[0]}/validate", json.dumps(review).encode(), {"content-type": "application/json"}
            )
            trust = ssl.create_default_context(cafile=tmp_path / "pki" / "ca.crt")
            trust.check_hostname = False
            answer = await asyncio.to_thread(urllib.request.urlopen, asked, context=trust, timeout=60)
            assert json.load(answer)["response"]["allowed"]
            await until_by(client, "ahab")
        finally:
            run.kill()
