"""Workers share a store that is encrypted, and a file that requests are recorded in."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from server_process import ServerProcess

from .conftest import FLUNDERS, calling, until

pytestmark = pytest.mark.slow

RULES = """
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [flunders.wardle.example.com]
  providers:
  - aesgcm: {keys: [{name: key1, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
"""
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: RequestResponse, resources: [{group: wardle.example.com}], verbs: [create]}
- {level: None}
"""
WRITES = 60


def test_every_worker_reads_what_another_encrypted_and_no_line_of_the_log_is_torn(
    workers: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    rules, policy, log = tmp_path / "rules.yaml", tmp_path / "policy.yaml", tmp_path / "logs" / "audit.log"
    rules.write_text(RULES)
    rules.chmod(0o600)
    policy.write_text(POLICY)
    options = (f"--encryption-provider-config={rules}", f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    server = workers(2, *options)
    names = {f"encrypted-{number}" for number in range(WRITES)}
    with calling(server, 8) as callers:
        for number, name in enumerate(sorted(names)):
            assert callers[number % len(callers)].create(name).status == 201
        for caller in callers:
            items = caller.get(FLUNDERS).json["items"]
            assert {item["metadata"]["name"] for item in items} == names
        metrics = callers[0].metrics()
    assert metrics["apiserver_audit_event_total"] == WRITES
    assert metrics['apiserver_audit_level_total{level="RequestResponse"}'] == WRITES
    until(lambda: len(log.read_text().splitlines()) == WRITES, "every write is recorded")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert {event["responseObject"]["metadata"]["name"] for event in events} == names
    server.stop()
    (store,) = tmp_path.glob("*.db")
    connection = sqlite3.connect(store)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    values = [
        value
        for table in tables
        for row in connection.execute(f'SELECT * FROM "{table}"')
        for value in row
        if isinstance(value, bytes)
    ]
    connection.close()
    assert sum(value.startswith(b"k8s:enc:aesgcm:v1:key1:") for value in values) >= WRITES
    assert not any(b'"name":"encrypted-' in value for value in values)
