"""Secrets: base64 as Go reads it, what their types ask for, and no value of one in any text that the server writes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import cbor2
import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.server.config import ServerConfig
from oarlock.testing import InMemory

SECRETS = "/api/v1/namespaces/default/secrets"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"
PASSWORD = "hunter2!PLAINTEXT"
REFUSED = 'Secret in version "v1" cannot be handled as a Secret: '
JSON_BODY = {"content-type": "application/json"}
YAML = {"content-type": "application/yaml"}
CBOR = {"content-type": "application/cbor"}
APPLY = {"content-type": "application/apply-patch+yaml"}
APPLY_CBOR = {"content-type": "application/apply-patch+cbor"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}


def secret(**facts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "leak"}, **facts}


WRONG: list[dict[str, Any]] = [
    secret(data={"password": PASSWORD}),
    secret(data={"password": "A" * 400 + PASSWORD}),
    secret(data=PASSWORD),
    secret(stringData=PASSWORD),
    secret(stringData=[PASSWORD]),
    secret(data=[{"password": PASSWORD}]),
    secret(data={"password": {"value": PASSWORD}}),
    secret(stringData={"password": [PASSWORD]}),
    secret(immutable=PASSWORD),
    secret(metadata=PASSWORD),
    secret(type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": PASSWORD}),
    secret(type="kubernetes.io/tls", stringData={"password": PASSWORD}),
]
PINS = [secret(data={"pin": 8675309}), secret(stringData={"pin": 8675309}), secret(stringData={"pin": 867.5309})]


def attempts() -> list[tuple[str, str, Any, dict[str, str]]]:
    """Requests that are refused, each with a secret in its body."""
    found: list[tuple[str, str, Any, dict[str, str]]] = []
    for body in WRONG + PINS:
        found += [
            ("POST", SECRETS, body, JSON_BODY),
            ("POST", SECRETS, json.dumps(body).encode(), YAML),
            ("POST", SECRETS, cbor2.dumps(body), CBOR),
            ("PATCH", f"{SECRETS}/leak?fieldManager=x", json.dumps(body).encode(), APPLY),
            ("PATCH", f"{SECRETS}/leak?fieldManager=x", cbor2.dumps(body), APPLY_CBOR),
            ("PUT", f"{SECRETS}/there", {**body, "metadata": {"name": "there"}}, JSON_BODY),
            ("PATCH", f"{SECRETS}/there", {**body, "metadata": {"name": "there"}}, MERGE),
            ("PATCH", f"{SECRETS}/there", {**body, "metadata": {"name": "there"}}, STRATEGIC),
        ]
    odd = {"data": {"password": base64.b64encode(PASSWORD.encode()).decode()}, "stringData": {"p": PASSWORD}, "odd": 1}
    found += [
        ("PATCH", f"{SECRETS}/there?fieldValidation=Strict", odd, MERGE),
        ("PATCH", f"{SECRETS}/there?fieldValidation=Strict", odd, STRATEGIC),
        ("PATCH", f"{SECRETS}/there", {"data": {"$patch": "odd", "password": PASSWORD}}, STRATEGIC),
        ("PATCH", f"{SECRETS}/there", [{"op": "add", "path": "/data/p", "value": PASSWORD}], JSON_PATCH),
        ("PATCH", f"{SECRETS}/there", [{"op": "test", "path": "/data/p", "value": PASSWORD}], JSON_PATCH),
        ("PATCH", f"{SECRETS}/there", [{"op": "replace", "path": "", "value": PASSWORD}], JSON_PATCH),
        ("PATCH", f"{SECRETS}/there", json.dumps(PASSWORD).encode(), MERGE),
        ("PATCH", f"{SECRETS}/there", json.dumps([PASSWORD]).encode(), JSON_PATCH),
    ]
    found.append(("DELETE", f"{SECRETS}/there", {"kind": {"password": PASSWORD}}, JSON_BODY))
    broken = json.dumps({"stringData": {"p": PASSWORD}})[:-2].encode()
    for media in (JSON_BODY, YAML, CBOR, {"content-type": "application/vnd.kubernetes.protobuf"}):
        for text in (broken, PASSWORD.encode(), b"{'p': '%s'" % PASSWORD.encode()):
            found += [("POST", SECRETS, text, media), ("DELETE", f"{SECRETS}/there", text, media)]
    found += [
        ("POST", SECRETS, f"stringData: {{p: {mark}{PASSWORD}}}".encode(), YAML) for mark in ("*", "!!int ", "!!float ")
    ]
    found += [
        ("PATCH", f"{SECRETS}/a?fieldManager=x", f"stringData: {{p: {mark}{PASSWORD}}}".encode(), APPLY)
        for mark in ("*", "!!int ", "!!float ")
    ]
    for path in (REVIEWS, TOKENS):
        for spec in (PASSWORD, [PASSWORD], {"token": [PASSWORD]}, {"audiences": PASSWORD}, {"token": 8675309}):
            found.append(("POST", path, {"spec": spec}, JSON_BODY))
        found.append(("POST", path, broken, JSON_BODY))
    return found


@pytest.mark.anyio
async def test_no_value_of_a_secret_or_token_is_in_an_error_or_in_the_audit_log(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}')
    log = tmp_path / "audit.log"
    config = ServerConfig(storage="memory://", audit_policy_file=policy, audit_log_path=log)
    async with InMemory(ControlPlane(), config=config) as api:
        there = {**secret(stringData={"old": PASSWORD}), "metadata": {"name": "there"}}
        assert (await api.post(SECRETS, there)).status == 201
        refused = 0
        for request in attempts():
            answer = await api.request(*request)
            assert answer.status < 500, (request, answer)
            if answer.status < 300:
                continue  # whoever writes a secret may read what they wrote
            refused += 1
            for told in (answer.body.decode("utf-8", "replace"), *answer.warnings):
                for hidden in (PASSWORD, PASSWORD[:8], PASSWORD[7:], "8675309", "867.5309"):
                    assert hidden not in told, (request, told)
                    assert base64.b64encode(hidden.encode()).decode().rstrip("=")[:-1] not in told, (request, told)
    assert refused > 120
    recorded = log.read_text()
    assert recorded.count("illegal base64 data at input byte 7") > 1
    assert PASSWORD not in recorded
    assert "8675309" not in recorded


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("YQ==", "YQ=="),
        ("YQ\n==", "YQ=="),
        ("YWJj\r\nZGVm\n", "YWJjZGVm"),
        ("YR==", "YQ=="),
        ("", ""),
        ("\n", ""),
        (None, ""),
    ],
)
async def test_base64_is_stored_as_go_would_write_it(text: str | None, stored: str) -> None:
    async with InMemory(ControlPlane()) as api:
        answer = await api.post(SECRETS, secret(data={"a": text, "b": "Yg=="}))
        assert answer.status == 201, answer
        assert answer.json["data"] == {"a": stored, "b": "Yg=="}
        assert (await api.get(f"{SECRETS}/leak")).json["data"] == answer.json["data"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "byte"),
    [
        ("YQ", 0),
        ("Y Q==", 1),
        ("_-__", 0),
        (PASSWORD, 7),
        ("YQ==YQ==", 4),
        ("YQ=", 3),
        ("YQ\n=é", 3),
        ("=", 0),
        ("YQ==\nY", 5),
    ],
)
async def test_what_is_no_base64_is_refused_in_gos_words(text: str, byte: int) -> None:
    async with InMemory(ControlPlane()) as api:
        answer = await api.post(SECRETS, secret(data={"a": text}))
        assert answer.status == 400
        assert answer.json["message"] == f"{REFUSED}illegal base64 data at input byte {byte}"
        assert "details" not in answer.json


REDACTED = 'Secret "leak" is invalid: data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": '


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a", "invalid character 'a' looking for beginning of value"),
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("[" * 20_000, "invalid character '[' exceeded max depth"),
        ("[" * 200_000, "exceeded max depth"),
        ('{"a":' * 200_000, "exceeded max depth"),
        ('{"a":' * 10_001 + "1" + "}" * 10_001, "invalid character '{' exceeded max depth"),
        ("{" + '"a":1,' * 20_000 + "b}", "invalid JSON"),
        ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ('"a"', "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        ("1", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        ("true", "json: cannot unmarshal bool into Go value of type map[string]interface {}"),
        ("null", ""),
        ("{}", ""),
        ('{"auths":' + "[" * 9_000 + "]" * 9_000 + "}", ""),
    ],
)
async def test_the_json_of_a_registrys_credentials_is_checked_as_go_does(text: str, why: str) -> None:
    async with InMemory(ControlPlane()) as api:
        data = {".dockerconfigjson": base64.b64encode(text.encode()).decode()}
        answer = await api.post(SECRETS, secret(type="kubernetes.io/dockerconfigjson", data=data))
        if why:
            assert (answer.status, answer.json["message"]) == (422, REDACTED + why)
        else:
            assert answer.status == 201, answer
