"""What is recorded of requests, event by event, in a log that a whole server writes."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from walk_kit import BOATS, Boat, boat, everything, walk

from oarlock import Admission
from oarlock.meta.context import User
from oarlock.policy.authz.authorizer import Authorizer, Decision, Outcome
from oarlock.server.config import ServerConfig
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

MINIMAL: dict[str, Any] = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}


class Sentry(Authorizer):
    """Lets nobody watch, and says why it lets in the others."""

    waits = False

    async def decide(self, user: User, target: Any) -> Decision:
        if target.path == "/crash":
            raise RuntimeError("a bug")
        return Decision.deny("not today") if target.verb == "watch" else Decision(Outcome.ALLOW, "by the book")


class Log:
    """The events of one server."""

    def __init__(self, folder: Path, *rules: dict[str, Any], **more: Any) -> None:
        policy = folder / "policy.yaml"
        policy.write_text(json.dumps({**MINIMAL, "rules": list(rules) or [{"level": "Metadata"}], **more}))
        self.file = folder / "logs" / "audit.log"
        self.config = ServerConfig(storage="memory://", audit_policy_file=policy, audit_log_path=self.file)

    def server(self, **how: Any) -> InMemory:
        return InMemory(everything(), config=self.config, **how)

    def events(self) -> list[Any]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def last(self) -> Any:
        return self.events()[-1]


@walk
async def test_a_read_is_recorded_when_it_is_received_and_when_it_is_answered(tmp_path: Path):
    log = Log(tmp_path)
    async with log.server() as api:
        await api.post(BOATS, boat("a"))
        before = len(log.events())
        answer = await api.get(f"{BOATS}/a?pretty=true&x=<y>", user_agent="kubectl/v1.34")
    received, complete = log.events()[before:]
    user = {"username": "admin", "groups": ["system:masters", "system:authenticated"]}
    group, version = BOATS.split("/")[2:4]
    assert received == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": answer.headers["audit-id"],
        "stage": "RequestReceived",
        "requestURI": f"{BOATS}/a?pretty=true&x=<y>",
        "verb": "get",
        "user": user,
        "sourceIPs": received["sourceIPs"],
        "userAgent": "kubectl/v1.34",
        "objectRef": {
            "resource": "boats",
            "namespace": "default",
            "name": "a",
            "apiGroup": group,
            "apiVersion": version,
        },
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        "stageTimestamp": "2026-01-01T00:00:00.000000Z",
    }
    assert complete == {
        **received,
        "stage": "ResponseComplete",
        "responseStatus": {"metadata": {}, "code": 200},
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    }
    order = list(json.loads(log.file.read_text().splitlines()[-1]))
    assert order[-4:] == ["responseStatus", "requestReceivedTimestamp", "stageTimestamp", "annotations"]
    assert b"\\u003cy\\u003e" in log.file.read_bytes()
    assert log.file.stat().st_mode & 0o777 == 0o600


@walk
async def test_who_decided_is_recorded_and_why(tmp_path: Path):
    log = Log(tmp_path)
    server = everything()
    server.authorizer = Sentry()
    async with InMemory(server, config=log.config) as api:
        await api.get(BOATS)
        assert log.last()["annotations"] == {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": "by the book",
        }
        answer = await api.request("GET", f"{BOATS}?watch=1")
        assert answer.status == 403
    assert [one["stage"] for one in log.events()[-3:]] == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    last = log.last()
    assert last["annotations"] == {
        "authorization.k8s.io/decision": "forbid",
        "authorization.k8s.io/reason": "not today",
    }
    assert last["responseStatus"]["reason"] == "Forbidden"
    assert last["responseStatus"]["message"] == answer.json["message"]
    assert last["responseStatus"]["code"] == 403


@walk
async def test_a_watch_has_its_stages(tmp_path: Path):
    log = Log(tmp_path)
    clock = VirtualClock()
    async with log.server(clock=clock) as api:
        async with api.watch(BOATS) as events:
            await api.post(BOATS, boat("a"))
            assert (await events.next())[0] == "ADDED"
            clock.advance(7)
        of_watch = [one for one in log.events() if one["verb"] == "watch"]
    assert [one["stage"] for one in of_watch] == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert of_watch[1]["responseStatus"] == {"metadata": {}, "code": 200}
    assert of_watch[2]["stageTimestamp"] == "2026-01-01T00:00:07.000000Z"


@walk
async def test_objects_are_recorded_at_their_levels(tmp_path: Path):
    log = Log(tmp_path, {"level": "RequestResponse", "omitStages": ["RequestReceived"]}, omitManagedFields=True)
    async with log.server() as api:
        made = (await api.post(BOATS, boat("a"))).json
        created = log.last()
        await api.put(f"{BOATS}/a", made)
        updated = log.last()
        await api.patch(f"{BOATS}/a", {"spec": {"crew": 3}})
        patched = log.last()
        applied = {"apiVersion": made["apiVersion"], "kind": "Boat", "metadata": {"name": "a"}, "spec": {"crew": 4}}
        text = json.dumps(applied, indent=1).encode()
        await api.patch(f"{BOATS}/a?fieldManager=me&force=true", text, "application/apply-patch+yaml")
        by_apply = log.last()
        await api.get(BOATS)
        listed = log.last()
        await api.get(f"{BOATS}/b")
        missing = log.last()
        await api.delete(f"{BOATS}/a", {"gracePeriodSeconds": 0})
        deleted = log.last()
    assert created["objectRef"]["name"] == "a"
    assert created["requestObject"]["spec"] == boat("a")["spec"]
    assert created["requestObject"]["kind"] == "Boat"
    assert created["responseStatus"] == {"metadata": {}, "code": 201}
    assert "managedFields" in made["metadata"]
    del made["metadata"]["managedFields"]
    assert created["responseObject"] == made
    assert updated["objectRef"]["uid"] == made["metadata"]["uid"]
    assert updated["objectRef"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert "managedFields" not in updated["requestObject"]["metadata"]
    assert patched["requestObject"] == {"spec": {"crew": 3}}
    assert patched["responseObject"]["spec"]["crew"] == 3
    assert by_apply["requestObject"] == applied
    assert [one["metadata"]["name"] for one in listed["responseObject"]["items"]] == ["a"]
    assert "managedFields" not in listed["responseObject"]["items"][0]["metadata"]
    assert missing["responseObject"]["reason"] == "NotFound"
    assert missing["responseStatus"]["details"]["name"] == "b"
    assert deleted["requestObject"]["gracePeriodSeconds"] == 0
    assert deleted["requestObject"]["kind"] == "DeleteOptions"
    assert deleted["responseStatus"]["status"] == "Success"
    assert deleted["responseStatus"]["details"]["name"] == "a"


@walk
async def test_the_level_request_has_no_answers_and_metadata_no_bodies(tmp_path: Path):
    log = Log(tmp_path, {"level": "Request", "verbs": ["create"]}, {"level": "Metadata"})
    async with log.server() as api:
        made = (await api.post(BOATS, boat("a"))).json
        created = log.last()
        await api.put(f"{BOATS}/a", made)
        updated = log.last()
    assert "requestObject" in created
    assert "responseObject" not in created
    assert "requestObject" not in updated
    assert updated["objectRef"]["uid"] == made["metadata"]["uid"]


@walk
@pytest.mark.parametrize(
    "headers",
    [
        {"accept": "application/yaml"},
        {"accept": "application/cbor"},
        {"accept": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
        {"user-agent": "curl/8"},
        {"accept-encoding": "gzip"},
    ],
)
async def test_an_answer_is_recorded_as_json_whatever_form_the_client_wants(tmp_path: Path, headers: dict[str, str]):
    log = Log(tmp_path, {"level": "RequestResponse"})
    async with log.server() as api:
        long = boat("a")
        long["metadata"]["annotations"] = {"long": "x" * 200_000}
        await api.post(BOATS, long)
        await api.request("GET", f"{BOATS}/a", None, headers)
        recorded = log.last()["responseObject"]
        assert recorded["metadata"]["name"] == "a"
        assert len(recorded["metadata"]["annotations"]["long"]) == 200_000


@walk
async def test_a_long_list_is_recorded_while_it_is_sent_and_one_too_long_is_left_out(tmp_path: Path):
    log = Log(tmp_path, {"level": "RequestResponse", "verbs": ["list"]})
    async with log.server() as api:
        for i in range(9):
            long = boat(f"b{i}")
            long["metadata"]["annotations"] = {"long": "x" * 250_000}
            await api.post(BOATS, long)
        answer = await api.get(BOATS)
        assert log.last()["responseObject"] == answer.json
        packed = await api.get(BOATS, accept_encoding="gzip")
        assert json.loads(gzip.decompress(packed.body)) == log.last()["responseObject"]
        for i in range(30):
            long["metadata"]["name"] = f"c{i}"
            await api.post(BOATS, long)
        answer = await api.get(BOATS)
        assert len(answer.json["items"]) == 39
        assert "responseObject" not in log.last()
        assert log.last()["annotations"]["audit.k8s.io/truncated"] == "true"
        assert api.parts.filters.unsent.size == 0


class Harbour(Admission[Boat]):
    """Says in the audit log where a boat is."""

    async def validate(self, review: Any) -> None:
        review.ctx.notes.audit("example.com/port", review.new.spec.port)


@walk
async def test_annotations_of_hooks_are_recorded(tmp_path: Path):
    log = Log(tmp_path)
    async with InMemory(everything(admission=[Harbour()]), config=log.config) as api:
        await api.post(BOATS, boat("a", port="Rotterdam"))
    assert log.last()["annotations"]["example.com/port"] == "Rotterdam"


@walk
async def test_a_crash_is_recorded_as_a_panic(tmp_path: Path):
    log = Log(tmp_path)
    server = everything()
    server.authorizer = Sentry()
    async with InMemory(server, config=log.config) as api:
        answer = await api.get("/crash")
    assert answer.status == 500
    last = log.last()
    assert last["stage"] == "Panic"
    assert last["responseStatus"]["message"] == "APIServer panic'd: a bug"
    assert "objectRef" not in last


@walk
async def test_proxies_are_recorded_before_the_connection(tmp_path: Path):
    log = Log(tmp_path)
    async with log.server() as api:
        await api.get(BOATS, x_forwarded_for="192.0.2.1, nonsense, 2001:db8::1", x_real_ip="192.0.2.9")
        ips = log.last()["sourceIPs"]
        await api.get(BOATS, x_forwarded_for="192.0.2.1," * 100_000)
        assert len(log.last()["sourceIPs"]) <= 65
        await api.get(BOATS, user_agent="x" * 2000)
        assert log.last()["userAgent"] == "x" * 1024 + "...TRUNCATED"
        assert log.last()["sourceIPs"] == ips[-1:]
    assert ips[:3] == ["192.0.2.1", "2001:db8::1", "192.0.2.9"]


@walk
async def test_requests_of_code_in_the_server_are_recorded_too(tmp_path: Path):
    log = Log(tmp_path)
    async with log.server() as api:
        await api.post(BOATS, boat("a"))
        await api.client(User("robot")).get(Boat, "a", namespace="default")
    assert log.last()["user"]["username"] == "robot"


@walk
async def test_a_request_that_takes_too_long_is_recorded_as_late(tmp_path: Path):
    log = Log(tmp_path)
    server = everything()

    class Slow(Authorizer):
        async def decide(self, user: User, target: Any) -> Decision:
            await asyncio.sleep(3600)
            return Decision.allow()

    server.authorizer = Slow()
    clock = VirtualClock()
    async with InMemory(server, config=log.config, clock=clock) as api:
        clock.advance(100)  # the loop's timers run by themselves
        answer = await api.get(f"{BOATS}?timeout=1ms")
    assert answer.status == 504
    assert log.last()["stage"] == "ResponseComplete"


@walk
async def test_a_timeout_that_cannot_be_read_is_recorded_as_from_nobody(tmp_path: Path):
    log = Log(tmp_path)
    async with log.server() as api:
        before = len(log.events())
        answer = await api.get(f"{BOATS}?timeout=x")
        (event,) = log.events()[before:]
        assert (await api.get(f"{BOATS}?watch=1&timeout=x&timeoutSeconds=0&allowWatchBookmarks=1")).status == 200
    assert answer.status == 400
    assert event["stage"] == "ResponseStarted"
    assert event["user"] == {}
    assert event["requestURI"] == f"{BOATS}?timeout=x"
    assert event["objectRef"]["resource"] == "boats"
    assert event["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": 'invalid timeout specified in the request URL - time: invalid duration "x"',
        "reason": "BadRequest",
        "code": 400,
    }
    assert event["auditID"] == answer.headers["audit-id"]


BOTH = ["RequestReceived", "ResponseComplete"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "stages"),
    [
        ("BREW", BOATS, {}, 405, BOTH),
        ("POST", f"{BOATS}/a", {}, 405, BOTH),
        ("GET", "/apis/nobody.example.com/v1/things", {}, 404, BOTH),
        ("GET", f"{BOATS}?limit=x", {}, 400, BOTH),
        ("GET", f"{BOATS}?labelSelector=%20,,", {}, 400, BOTH),
        ("GET", BOATS, {"accept": "text/x-nothing"}, 406, BOTH),
        ("POST", BOATS, {"content-type": "text/x-nothing"}, 415, BOTH),
        ("POST", BOATS, {"content-type": "application/json"}, 400, BOTH),
        ("PATCH", f"{BOATS}/a", {"content-type": "text/x-nothing"}, 415, BOTH),
        ("GET", BOATS, {"impersonate-uid": "u"}, 400, BOTH),
        # What Go's server refuses before any filter of Kubernetes is recorded nowhere.
        ("GET", f"{BOATS}/%zz", {}, 400, []),
    ],
)
@walk
async def test_what_is_refused_early_is_recorded_as_kubernetes_does(
    tmp_path: Path, method: str, path: str, headers: dict[str, str], status: int, stages: list[str]
):
    log = Log(tmp_path)
    async with log.server() as api:
        before = len(log.events())
        answer = await api.request(method, path, b"{" if method == "POST" else None, headers)
        events = log.events()[before:]
    assert answer.status == status
    assert [event["stage"] for event in events] == stages
    assert {event["auditID"] for event in events} <= {answer.headers["audit-id"]}
    assert all(event["user"]["username"] == "admin" for event in events)
    assert all(event["responseStatus"]["code"] == status for event in events[1:])


@walk
async def test_a_body_that_is_too_large_is_recorded(tmp_path: Path):
    log = Log(tmp_path)
    async with log.server() as api:
        answer = await api.request("POST", BOATS, b" " * 3_200_000, {"content-type": "application/json"})
    assert answer.status == 413
    assert (log.last()["stage"], log.last()["responseStatus"]["code"]) == ("ResponseComplete", 413)


@walk
async def test_the_legacy_format_tells_each_stage_as_it_was(tmp_path: Path):
    log = Log(tmp_path)
    config = replace(log.config, audit_log_format="legacy")
    async with InMemory(everything(), config=config) as api:
        await api.get(BOATS)
    received, complete = log.file.read_text().splitlines()
    assert 'stage="RequestReceived"' in received
    assert received.endswith('response="<deferred>"')
    assert complete.endswith('response="200"')


@walk
async def test_metrics_count_what_is_recorded(tmp_path: Path):
    log = Log(tmp_path, {"level": "None", "nonResourceURLs": ["/metrics"]}, {"level": "Metadata"})
    async with log.server() as api:
        await api.get(BOATS)
        text = (await api.get("/metrics")).body.decode()
    assert "apiserver_audit_event_total 2.0" in text
    assert 'apiserver_audit_level_total{level="Metadata"} 1.0' in text
    assert 'apiserver_audit_level_total{level="None"} 1.0' in text
    assert "apiserver_audit_requests_rejected_total 0.0" in text


class Slow(Admission[Boat]):
    """Takes so long for a boat as its name says, on the clock of the test."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    async def validate(self, review: Any) -> None:
        self._clock.advance(0.6 if review.name == "slow" else 0.4)


@walk
async def test_a_slow_request_says_how_long_it_took(tmp_path: Path):
    log, clock = Log(tmp_path), VirtualClock()
    async with InMemory(everything(admission=[Slow(clock)]), config=log.config, clock=clock) as api:
        assert (await api.post(BOATS, boat("quick"))).status == 201
        assert "apiserver.latency.k8s.io/total" not in log.last().get("annotations", {})
        assert (await api.post(BOATS, boat("slow"))).status == 201
        assert log.last()["annotations"]["apiserver.latency.k8s.io/total"] == "600ms"
