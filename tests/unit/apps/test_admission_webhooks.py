"""Admission webhooks of a control plane, with a real HTTPS server that answers, refuses, hangs, lies and breaks off."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
from conversion_service import ConversionService
from until import settled

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.server.config import ServerConfig
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

Tree = dict[str, Any]

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
AUTHORITY = trustme.CA()
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


def answer(review: Tree, **response: Any) -> Tree:
    response = {"uid": review["request"]["uid"], "allowed": True, **response}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def patching(*operations: Tree) -> Callable[[Tree], Tree]:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda review: answer(review, patchType="JSONPatch", patch=patch)


def refusing(review: Tree) -> Tree:
    return answer(review, allowed=False, status={"message": "no", "code": 403, "reason": "Forbidden"})


class Cluster:
    """A control plane and a webhook."""

    def __init__(self, api: InMemory, service: ConversionService, url: str) -> None:
        self.api = api
        self.service = service
        self._url = url

    def client(self, *, upper: bool = False) -> Tree:
        bundle = base64.b64encode(AUTHORITY.cert_pem.bytes()).decode()
        return {"url": self._url.replace("https", "HTTPS") if upper else self._url, "caBundle": bundle}

    def webhook(self, name: str = "one.hooks.example.com", **fields: Any) -> Tree:
        return {
            "name": name,
            "clientConfig": self.client(),
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }

    async def configure(self, kind: str, name: str, *webhooks: Tree) -> None:
        path = f"{GROUP}/{kind.lower()}webhookconfigurations"
        made = await self.api.post(path, {"metadata": {"name": name}, "webhooks": list(webhooks)})
        assert made.status == 201, made.json

    async def create(self, name: str = "a", **fields: Any) -> Any:
        return await self.api.post(MAPS, {"metadata": {"name": name}, "data": {"a": "1"}, **fields})


@asynccontextmanager
async def cluster(config: ServerConfig | None = None) -> AsyncIterator[Cluster]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    service = ConversionService()
    service.answer = answer
    try:
        url = await service.start(context)
        async with InMemory(ControlPlane(), config=config) as api:
            await settled(api)
            yield Cluster(api, service, url)
    finally:
        await service.close()


async def test_a_webhook_is_asked_from_the_next_request_on_until_it_is_deleted():
    async with cluster() as one:
        one.service.answer = refusing
        assert (await one.create("before")).status == 201
        await one.configure("Validating", "c", one.webhook())
        refused = await one.create()
        assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
        assert refused.json["message"] == 'admission webhook "one.hooks.example.com" denied the request: no'
        assert (await one.api.delete(f"{MAPS}/before")).status == 403
        assert (await one.api.patch(f"{MAPS}/before", {"data": {"b": "2"}})).status == 403
        asked = [review["request"] for review in one.service.reviews]
        assert [request["operation"] for request in asked] == ["CREATE", "DELETE", "UPDATE"]
        assert [request["oldObject"] is None for request in asked] == [True, False, False]
        assert asked[1]["object"] is None
        assert (await one.api.delete(f"{GROUP}/validatingwebhookconfigurations/c")).status == 200
        assert (await one.create()).status == 201
        assert len(one.service.reviews) == 3


async def test_all_of_a_collection_are_asked_about():
    async with cluster() as one:
        assert [(await one.create(name)).status for name in ("a", "b")] == [201, 201]
        await one.configure("Validating", "c", one.webhook(rules=[{**RULE, "operations": ["DELETE"]}]))
        assert (await one.api.request("DELETE", MAPS)).status == 200
        requests = [review["request"] for review in one.service.reviews]
        named = {request["oldObject"]["metadata"]["name"] for request in requests}
        assert {"a", "b"} <= named
        assert not any("name" in request for request in requests)


LIES: list[tuple[Any, str]] = [
    (b"hello", "failed to call webhook: couldn't get version/kind; json parse error: "),
    ([], "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal array"),
    ({"apiVersion": "admission.k8s.io/v1"}, "received invalid webhook response: webhook response was absent"),
    ({"response": {"uid": "x"}}, "received invalid webhook response: expected response.uid="),
    (b" " * 3_000_000, "failed to call webhook: the answer has more than "),
]


async def test_what_liars_say_refuses_unless_failures_are_ignored():
    async with cluster() as one:
        await one.configure("Validating", "c", one.webhook())
        for lie, why in LIES:
            one.service.answer = partial(_lie, lie)
            refused = await one.create()
            head = 'Internal error occurred: failed calling webhook "one.hooks.example.com": '
            assert refused.status == 500
            assert refused.json["message"].startswith(head + why)
        assert (await one.api.delete(f"{GROUP}/validatingwebhookconfigurations/c")).status == 200
        await one.configure("Validating", "c", one.webhook(failurePolicy="Ignore"))
        for number, (lie, _) in enumerate(LIES):
            one.service.answer = partial(_lie, lie)
            assert (await one.create(f"a{number}")).status == 201


def _lie(lie: Any, review: Tree) -> Any:
    return lie


async def test_one_that_breaks_off_and_one_that_hangs_fail_in_time():
    async with cluster() as one:
        one.service.breaks_off = True
        await one.configure("Validating", "c", one.webhook(timeoutSeconds=1))
        assert (await one.create()).status == 500
        one.service.breaks_off = False
        one.service.open.clear()
        refused = await one.create()
        assert refused.json["message"].endswith('?timeout=1s": context deadline exceeded')
        waiting = asyncio.ensure_future(one.create("b"))
        assert (await one.api.get(MAPS)).status == 200  # a hanging webhook holds up nobody else
        one.service.open.set()
        assert (await waiting).status == 201


async def test_patches_are_applied_in_the_order_of_configurations():
    async with cluster() as one:

        def append(review: Tree) -> Tree:
            data = review["request"]["object"].get("data") or {}
            return patching({"op": "add", "path": f"/data/n{len(data)}", "value": "x"})(review)

        one.service.answer = append
        await one.configure("Mutating", "b", one.webhook("second.hooks.example.com"))
        await one.configure("Mutating", "a", one.webhook("first.hooks.example.com", reinvocationPolicy="IfNeeded"))
        made = await one.create()
        assert made.status == 201, made.json
        assert set(made.json["data"]) == {"a", "n1", "n2", "n3"}
        assert len(one.service.reviews) == 3  # the first is asked again, because the second changed the object


SPOILING: list[tuple[Tree, tuple[int, ...], str]] = [
    ({"op": "remove", "path": "/nothing/here"}, (500,), 'doc is missing path: "/nothing/here": missing value'),
    ({"op": "replace", "path": "/metadata", "value": "x"}, (500,), "has made something else of the object"),
    ({"op": "add", "path": "/data/b c", "value": "1"}, (422,), "a valid config key must consist of"),
    ({"op": "add", "path": "/data/n", "value": 1}, (400, 422), "n"),
]


async def test_patches_that_make_no_object_refuse_it():
    async with cluster() as one:
        await one.configure("Mutating", "c", one.webhook())
        for operation, codes, why in SPOILING:
            one.service.answer = patching(operation)
            refused = await one.create()
            assert refused.status in codes
            assert why in refused.json["message"]
        assert (await one.api.get(f"{MAPS}/a")).status == 404


async def test_a_patch_doesnt_change_the_kind():
    async with cluster() as one:
        one.service.answer = patching({"op": "replace", "path": "/kind", "value": "Secret"})
        await one.configure("Mutating", "c", one.webhook())
        assert (await one.create()).json["kind"] == "ConfigMap"


ELSEWHERE = [
    ("name", "the name of the object (other) does not match the name on the URL (a)"),
    ("namespace", "the namespace of the provided object does not match the namespace sent on the request"),
]


@pytest.mark.parametrize(("field", "text"), ELSEWHERE)
async def test_a_patch_that_puts_the_object_elsewhere_is_refused(field: str, text: str):
    async with cluster() as one:
        moving = patching({"op": "add", "path": f"/metadata/{field}", "value": "other"})
        assert (await one.create()).status == 201
        await one.configure("Mutating", "c", one.webhook())
        one.service.answer = moving
        refused = [
            await one.api.patch(f"{MAPS}/a", {"data": {"b": "1"}}),
            await one.api.put(f"{MAPS}/a", {"metadata": {"name": "a"}}),
            await one.create("a"),
        ]
        assert [(answer.status, answer.json["message"]) for answer in refused] == [(400, text)] * 3
        one.service.answer = patching({"op": "remove", "path": f"/metadata/{field}"})
        assert (await one.api.patch(f"{MAPS}/a", {"data": {"c": "1"}})).status == 200


async def test_a_patch_that_changes_the_uid_of_what_is_there_is_refused():
    async with cluster() as one:
        made = await one.create()
        one.service.answer = patching({"op": "replace", "path": "/metadata/uid", "value": "mine"})
        await one.configure("Mutating", "c", one.webhook())
        refused = await one.api.patch(f"{MAPS}/a", {"data": {"b": "1"}})
        assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (422, "metadata.uid")
        assert (await one.api.get(f"{MAPS}/a")).json["metadata"]["uid"] == made.json["metadata"]["uid"]


async def test_selectors_and_conditions_say_who_is_asked():
    async with cluster() as one:
        one.service.answer = refusing
        in_kube_system = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
        await one.configure(
            "Validating",
            "c",
            one.webhook("a.hooks.example.com", namespaceSelector=in_kube_system),
            one.webhook("b.hooks.example.com", objectSelector={"matchLabels": {"t": "b"}}),
            one.webhook("c.hooks.example.com", matchConditions=[{"name": "c", "expression": "object.data.a == 'c'"}]),
        )
        assert (await one.create()).status == 201
        labelled = await one.create("b", metadata={"name": "b", "labels": {"t": "b"}})
        assert '"b.hooks.example.com"' in labelled.json["message"]
        assert '"c.hooks.example.com"' in (await one.create("c", data={"a": "c"})).json["message"]
        undecided = await one.create("d", data={})
        assert (undecided.status, undecided.json["reason"]) == (403, "Forbidden")
        assert "resulted in error: no such key: data" in undecided.json["message"]
        elsewhere = await one.api.post(
            MAPS.replace("default", "kube-system"), {"metadata": {"name": "x"}, "data": {"a": "x"}}
        )
        assert '"a.hooks.example.com"' in elsewhere.json["message"]


async def test_nobody_locks_himself_out_of_the_configurations():
    async with cluster() as one:
        one.service.answer = refusing
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        await one.configure("Validating", "c", one.webhook(rules=[everything]))
        assert (await one.create()).status == 403
        assert (await one.api.delete(f"{GROUP}/validatingwebhookconfigurations/c")).status == 200


async def test_warnings_are_sent_and_so_is_a_dry_run():
    async with cluster() as one:
        one.service.answer = lambda review: answer(review, warnings=["look out"])
        await one.configure("Validating", "c", one.webhook())
        made = await one.api.post(f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}})
        assert made.status == 201
        assert "look out" in str(made.headers)
        assert one.service.reviews[0]["request"]["dryRun"] is True


def annotations_of(events: list[Tree], path: str) -> Tree:
    return next(event["annotations"] for event in events if event["requestURI"].startswith(path))


@pytest.mark.parametrize("level", ["Metadata", "Request"])
async def test_what_webhooks_did_is_in_the_audit_log(tmp_path: Path, level: str):
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    rules = [{"level": level, "omitStages": ["RequestReceived"]}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    config = ServerConfig(storage="memory://", audit_policy_file=policy, audit_log_path=log)
    async with cluster(config) as one:
        other = {"clientConfig": {"url": "https://127.0.0.1:1/none"}, "failurePolicy": "Ignore"}
        elsewhere = {"rules": [{**RULE, "resources": ["secrets"]}]}
        hooks = ("a.hooks.example.com", elsewhere), ("b.hooks.example.com", {}), ("c.hooks.example.com", other)
        one.service.answer = patching({"value": "2", "path": "/data/b", "op": "add"})
        await one.configure("Mutating", "m", *(one.webhook(name, **fields) for name, fields in hooks))
        await one.configure("Validating", "v", one.webhook("d.hooks.example.com", **other))
        assert (await one.create()).status == 201
    found = annotations_of([json.loads(line) for line in log.read_text().splitlines()], MAPS)
    place = "webhook.admission.k8s.io/round_0_index"
    assert found[f"mutation.{place}_1"] == '{"configuration":"m","webhook":"b.hooks.example.com","mutated":true}'
    assert found[f"mutation.{place}_2"] == '{"configuration":"m","webhook":"c.hooks.example.com","mutated":false}'
    assert found[f"failed-open.mutation.{place}_2"] == "c.hooks.example.com"
    assert found["failed-open.validating.webhook.admission.k8s.io/round_0_index_0"] == "d.hooks.example.com"
    assert found.get(f"patch.{place}_1") == (
        '{"configuration":"m","webhook":"b.hooks.example.com","patch":[{"op":"add","path":"/data/b","value":"2"}],'
        '"patchType":"JSONPatch"}'
        if level == "Request"
        else None
    )


async def test_calls_of_webhooks_are_counted():
    async with cluster() as one:
        await one.configure("Validating", "v", one.webhook())
        await one.configure("Mutating", "m", one.webhook("two.hooks.example.com", failurePolicy="Ignore"))
        assert (await one.create()).status == 201
        one.service.answer = refusing
        assert (await one.create("b")).status == 403
        one.service.answer = lambda review: b"nonsense"
        assert (await one.create("c")).status == 500
        one.service.answer = patching({"op": "remove", "path": "/none"})
        assert (await one.create("d")).status == 500
        lines = (await one.api.get("/metrics")).body.decode().splitlines()
    first, second = 'name="one.hooks.example.com"', 'name="two.hooks.example.com"'
    of_first, of_second = f'{first},operation="CREATE"', f'{second},operation="CREATE"'
    head = "apiserver_admission_webhook"
    for line in (
        f'{head}_request_total{{code="200",{of_second},rejected="false",type="admit"}} 1.0',
        f'{head}_request_total{{code="200",{of_first},rejected="false",type="validating"}} 1.0',
        f'{head}_request_total{{code="403",{of_second},rejected="true",type="admit"}} 1.0',
        f'{head}_request_total{{code="503",{of_first},rejected="true",type="validating"}} 1.0',
        f'{head}_request_total{{code="503",{of_second},rejected="false",type="admit"}} 1.0',
        f'{head}_fail_open_count{{{second},type="admit"}} 1.0',
        f'{head}_admission_duration_seconds_bucket{{le="25",{of_first},rejected="false",type="validating"}} 1.0',
    ):
        assert line in lines, [one for one in lines if one.startswith(head)]
    rejections = [one for one in lines if one.startswith(f"{head}_rejection_count{{")]
    assert [one.partition("error_type=")[2].partition(",")[0] for one in sorted(rejections)] == [
        '"apiserver_internal_error"',
        '"calling_webhook_error"',
        '"no_error"',
    ]
    plugin = 'name="MutatingAdmissionWebhook",operation="CREATE",rejected="true",type="admit"'
    assert f"apiserver_admission_controller_admission_duration_seconds_count{{{plugin}}} 2.0" in lines
    step = 'operation="CREATE",rejected="true",type="validate"'
    assert f"apiserver_admission_step_admission_duration_seconds_count{{{step}}} 1.0" in lines


async def test_a_configuration_of_one_server_is_in_force_at_another_that_has_caught_up(tmp_path: Path):
    stores = [SqliteBackend(tmp_path / "store.db", VirtualClock()) for _ in range(2)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    service = ConversionService()
    service.answer = refusing
    kind = f"{GROUP}/validatingwebhookconfigurations"
    try:
        url = await service.start(context)
        first, second = (InMemory(ControlPlane(), backend=store) for store in stores)
        async with first as one, second as other, other.watch(kind) as events:
            here, there = Cluster(one, service, url), Cluster(other, service, url)
            assert (await there.create("before")).status == 201
            await here.configure("Validating", "c", here.webhook())
            assert (await events.next())[0] == "ADDED"
            assert (await there.create()).status == 403
            assert (await one.delete(f"{kind}/c")).status == 200
            assert (await events.next())[0] == "DELETED"
            assert (await there.create()).status == 201
    finally:
        await service.close()


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def test_status_and_scale_are_asked_about_as_subresources_only():
    async with cluster() as one:
        pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pod}
        made = await one.api.post(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        assert made.status == 201, made.json
        resources = ["deployments/status", "deployments/scale"]
        rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": resources}
        await one.configure("Validating", "c", one.webhook(rules=[rule]))
        one.service.answer = refusing
        assert (await one.api.patch(f"{DEPLOYMENTS}/d", {"metadata": {"labels": {"x": "y"}}})).status == 200
        assert (await one.api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}})).status == 403
        assert (await one.api.patch(f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 2}})).status == 403
        assert (await one.api.get(f"{DEPLOYMENTS}/d")).json["spec"]["replicas"] == 1
    of_scale, of_status = (review["request"] for review in one.service.reviews)
    assert [of_scale["subResource"], of_status["subResource"]] == ["scale", "status"]
    assert of_scale["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert of_scale["resource"] == {"group": "apps", "version": "v1", "resource": "deployments"}
    assert [of_scale[which]["spec"]["replicas"] for which in ("object", "oldObject")] == [3, 1]
    assert of_status["kind"]["kind"] == "Deployment"
    assert [of_status["object"]["status"].get("replicas"), of_status["oldObject"]["status"].get("replicas")] == [
        2,
        None,
    ]


BAD_URLS = [
    (
        " https://127.0.0.1:1/x",
        'url must be a valid URL: parse " https://127.0.0.1:1/x": first path segment in URL cannot contain colon',
    ),
    ("h\nttps://a/x", 'url must be a valid URL: parse "h\\nttps://a/x": net/url: invalid control character in URL'),
    ("HTTP://a/x", "'https' is the only allowed URL scheme"),
    ("https:///x", "host must be specified"),
    ("https://me:secret@a/x", "user information is not permitted in the URL"),
]


@pytest.mark.parametrize(("url", "text"), BAD_URLS)
async def test_urls_that_no_webhook_may_have(url: str, text: str):
    async with InMemory(ControlPlane()) as api:
        one = Cluster(api, ConversionService(), url)
        refused = await api.post(
            f"{GROUP}/validatingwebhookconfigurations", {"metadata": {"name": "c"}, "webhooks": [one.webhook()]}
        )
        (cause,) = refused.json["details"]["causes"]
        assert (refused.status, cause["field"]) == (422, "webhooks[0].clientConfig.url")
        assert f"{text}; desired format: https://host[/path]" in cause["message"] or text in cause["message"]
        assert "secret" not in refused.body.decode()


async def test_a_scheme_in_capitals_is_called_over_tls_and_poisons_no_other():
    async with cluster() as one:
        await one.configure(
            "Validating", "loud", one.webhook("loud.hooks.example.com", clientConfig=one.client(upper=True))
        )
        assert (await one.create("a")).status == 201
        await one.configure("Validating", "honest", one.webhook())
        assert (await one.create("b")).status == 201
        assert len(one.service.reviews) == 3
