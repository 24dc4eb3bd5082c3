"""Events on their way from a request to a service, over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from oarlock.client.clock import SystemClock
from oarlock.server.audit.build import audit_of
from oarlock.server.audit.sink import AuditError
from oarlock.server.config import ServerConfig
from oarlock.server.filters.audit import Audit

pytestmark = pytest.mark.anyio


class Service:
    """Takes POSTs of JSON, and remembers them with their path and their credential."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, Any]] = []
        self.arrived = asyncio.Event()
        self.left: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.left.add(asyncio.current_task())
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                headers = {name.lower(): value for name, value in lines.items()}
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                self.received.append((head.split(" ")[1], headers.get("authorization", ""), body))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                self.arrived.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def ended(self) -> None:
        """Wait until every connection has ended."""
        await asyncio.wait_for(asyncio.gather(*filter(None, self.left)), 60)


def policy(folder: Path, text: str = "{level: Metadata}") -> Path:
    file = folder / "policy.yaml"
    file.write_text(f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{text}]\n")
    return file


def kubeconfig(folder: Path, server: str) -> Path:
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "audit", "cluster": {"server": server}}],
        "users": [{"name": "audit", "user": {"token": "for-the-service"}}],
        "contexts": [{"name": "audit", "context": {"cluster": "audit", "user": "audit"}}],
        "current-context": "audit",
    }
    file = folder / "webhook.kubeconfig"
    file.write_text(json.dumps(tree))
    return file


@pytest.mark.parametrize("mode", ["batch", "blocking", "blocking-strict"])
async def test_a_service_gets_every_event(chain: Any, tmp_path: Path, mode: str) -> None:
    service = Service()
    listening = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    config = ServerConfig(
        storage="memory://",
        audit_policy_file=policy(tmp_path),
        audit_webhook_config_file=kubeconfig(tmp_path, f"http://127.0.0.1:{port}/in"),
        audit_webhook_mode=mode,
        audit_webhook_batch_max_size=2,
    )
    audit = audit_of(config, SystemClock())
    assert audit is not None
    chain.config["audit"] = Audit(audit)
    response = await chain.send()
    assert response.status == 200
    await asyncio.wait_for(service.arrived.wait(), 60)
    await audit.close()
    await service.ended()
    listening.close()
    events = [event for _, _, body in service.received for event in body["items"]]
    assert [event["stage"] for event in events] == ["RequestReceived", "ResponseComplete"]
    assert {event["auditID"] for event in events} == {dict(response.headers)["audit-id"]}
    assert {(path, token) for path, token, _ in service.received} == {("/in", "Bearer for-the-service")}
    assert len(service.received) == (1 if mode == "batch" else 2)
    assert audit.counts.errors == {}
    listening.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"audit_log_path": Path("/proc/nowhere/a.log")}, "--audit-log-path=/proc/nowhere/a.log: No such file"),
        (
            {"audit_webhook_config_file": Path("nowhere")},
            "--audit-webhook-config-file=nowhere: cannot read the kubeconfig",
        ),
    ],
)
async def test_a_file_that_cannot_be_used_is_told_with_its_option(
    tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    config = ServerConfig(storage="memory://", audit_policy_file=policy(tmp_path), **options)
    with pytest.raises(AuditError) as told:
        audit_of(config, SystemClock())
    assert says in str(told.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [("{level: metadata}", 'rules[0].level: Unsupported value: "metadata"'), ("{level: None", "error converting YAML")],
)
async def test_a_mistake_in_the_policy_is_told_with_the_file(tmp_path: Path, text: str, says: str) -> None:
    file = policy(tmp_path, text)
    config = ServerConfig(storage="memory://", audit_policy_file=file, audit_log_path=tmp_path / "audit.log")
    with pytest.raises(AuditError) as told:
        audit_of(config, SystemClock())
    assert str(told.value).startswith(f"--audit-policy-file={file}: ")
    assert says in str(told.value)
    assert "\n" not in str(told.value)
