"""Custom resources whose versions a webhook converts: what it is asked, how often, and what becomes of its failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from conversion_service import GROUP, ConversionService, links, renamed

from oarlock import APIServer
from oarlock.apps.crds import conversion
from oarlock.apps.crds.conversion import WebhookConverter, review_version
from oarlock.client import webhooks as webhook_calls
from oarlock.client.webhooks import WebhookCalls, WebhookError, WebhookService, WebhookTarget
from oarlock.registry.served import Served
from oarlock.schema.crd import parse
from oarlock.testing.server import InMemory

pytestmark = pytest.mark.anyio

V1 = f"/apis/{GROUP}/v1/namespaces/default/links"
V2 = V1.replace("/v1/", "/v2/")
FAILED = f"conversion webhook for {GROUP}/v1, Kind=Link"


async def no_services(service: WebhookService) -> str:
    raise WebhookError(f'service "{service.name}" not found')


def _converter(crd: dict[str, Any], calls: WebhookCalls) -> WebhookConverter:
    webhook = crd["spec"]["conversion"]["webhook"]
    config, review = webhook["clientConfig"], review_version(webhook["conversionReviewVersions"])
    service = WebhookService(**config["service"]) if "service" in config else None
    return WebhookConverter(GROUP, WebhookTarget.of(config.get("url", ""), service, b""), review, calls)


class Requests:
    """Requests to the server; what succeeds is a tree."""

    def __init__(self, api: InMemory) -> None:
        self.request = api.request
        self._api = api

    async def get(self, path: str) -> Any:
        return self._tree(await self._api.get(path))

    async def create(self, path: str, body: Any) -> Any:
        return self._tree(await self._api.post(path, body))

    async def patch(self, path: str, body: Any) -> Any:
        return self._tree(await self._api.patch(path, body))

    def _tree(self, answer: Any) -> Any:
        assert answer.status < 300, answer.json
        return answer.json


@asynccontextmanager
async def serving(*review_versions: str, config: dict[str, Any] | None = None) -> AsyncIterator[Any]:
    """A server of links and of a plain resource, and the webhook that converts links."""
    service, calls = ConversionService(), WebhookCalls(no_services)
    crd = links(config or {"url": await service.start()}, *review_versions)
    other = links({"url": "http://unused"})
    other["metadata"]["name"] = "links.plain.example.com"
    other["spec"].update(group="plain.example.com", conversion={"strategy": "None"})
    served = [Served(parse(crd), _converter(crd, calls)), Served(parse(other))]
    try:
        async with InMemory(APIServer(serve=served)) as api:
            yield Requests(api), service
    finally:
        await calls.close()
        await service.close()


def link(name: str, **spec: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


async def test_it_is_asked_as_kubernetes_asks():
    async with serving() as (api, service):
        created = await api.create(V2, link("a", hostPort="example.com:80"))
        assert created["spec"] == {"hostPort": "example.com:80"}
        to_v1, to_v2 = service.reviews
        head = service.heads[0].lower().split("\r\n")
        assert head[0] == "post /convert?timeout=30s http/1.1"
        assert "accept: application/json, */*" in head
        assert "content-type: application/json" in head
        assert list(to_v1) == ["kind", "apiVersion", "request", "response"]
        assert (to_v1["kind"], to_v1["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
        assert to_v1["response"] == {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
        assert list(to_v1["request"]) == ["uid", "desiredAPIVersion", "objects"]
        assert to_v1["request"]["desiredAPIVersion"] == f"{GROUP}/v1"
        (sent,) = to_v1["request"]["objects"]
        assert sent["apiVersion"] == f"{GROUP}/v2"
        assert sent["metadata"]["uid"] == created["metadata"]["uid"]
        assert "resourceVersion" not in to_v2["request"]["objects"][0]["metadata"]
        assert (await api.get(f"{V1}/a"))["spec"] == {"host": "example.com", "port": "80"}
        assert len(service.reviews) == 2


async def test_a_list_is_one_call_and_none_when_repeated():
    async with serving() as (api, service):
        for n in range(1000):
            await api.create(V1, link(f"l{n:04}", host="h" * 1200, port=str(n)))
        assert not service.reviews
        listed = await api.get(V2)
        assert [item["spec"]["hostPort"][-3:] for item in listed["items"][:3]] == ["h:0", "h:1", "h:2"]
        assert [len(one["request"]["objects"]) for one in service.reviews] == [1000]
        assert (await api.get(V2))["items"] == listed["items"]
        assert (await api.get(f"{V2}/l0007"))["spec"] == listed["items"][7]["spec"]
        assert len(service.reviews) == 1
        await api.patch(f"{V1}/l0003", {"spec": {"port": "x"}})
        assert (await api.get(V2))["items"][3]["spec"]["hostPort"].endswith(":x")
        assert [len(one["request"]["objects"]) for one in service.reviews] == [1000, 1]


async def test_the_first_version_of_reviews_that_is_known_is_spoken():
    async with serving("v7", "v1beta1", "v1") as (api, service):
        await api.create(V2, link("a", hostPort="b:1"))
        assert service.reviews[0]["apiVersion"] == "apiextensions.k8s.io/v1beta1"


async def test_labels_and_annotations_are_taken_and_the_rest_of_the_metadata_stays():
    def meddling(review: dict[str, Any]) -> Any:
        answer = renamed(review)
        for tree in answer["response"]["convertedObjects"]:
            tree["metadata"].update(labels={"converted": "yes"}, annotations={"a": "b"}, finalizers=["x.io/y"])
            tree["metadata"]["creationTimestamp"] = "1999-01-01T00:00:00Z"
            tree["spec"]["unknown"] = "is pruned"
        return answer

    async with serving() as (api, service):
        before = (await api.create(V1, link("a", host="h", port="1")))["metadata"]
        service.answer = meddling
        read = await api.get(f"{V2}/a")
        assert read["metadata"] == {**before, "labels": {"converted": "yes"}, "annotations": {"a": "b"}}
        assert read["spec"] == {"hostPort": "h:1"}


def _changed(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    def answer(review: dict[str, Any]) -> Any:
        made = renamed(review)
        made["response"].update(changes)
        return made

    return answer


def _metadata(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    def answer(review: dict[str, Any]) -> Any:
        made = renamed(review)
        made["response"]["convertedObjects"][0]["metadata"].update(changes)
        return made

    return answer


def _object(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    def answer(review: dict[str, Any]) -> Any:
        made = renamed(review)
        made["response"]["convertedObjects"][0].update(changes)
        return made

    return answer


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (_changed(result={"status": "Failure", "message": "cannot convert"}), "failed: cannot convert"),
        (_changed(result=None), "failed: response.result.status was '', not 'Success'"),
        (_changed(convertedObjects=[]), "returned 0 objects, expected 1"),
        (_changed(convertedObjects=None), "returned 0 objects, expected 1"),
        (_changed(convertedObjects=["x"]), "returned invalid object: it is no object"),
        (_metadata(name="other"), "returned invalid object: must have the same name: a != other"),
        (_metadata(namespace="x"), "returned invalid object: must have the same namespace: default != x"),
        (
            _metadata(labels={"a": 1}),
            "returned invalid metadata: metadata.labels[a] must be a string in converted object",
        ),
        (_metadata(labels=[]), "returned invalid metadata: invalid metadata.labels in converted object: it is no map"),
        (_object(metadata=None), "returned invalid metadata: missing metadata in converted object"),
        (_object(kind="L"), "returned invalid object: invalid kind (expected Link, received L)"),
        (
            _object(apiVersion=f"{GROUP}/v1"),
            f"returned invalid object: invalid groupVersion (expected {GROUP}/v2, received {GROUP}/v1)",
        ),
        (
            lambda review: {},
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got , Kind=",
        ),
        (lambda review: {**renamed(review), "response": None}, "failed: no response provided"),
        (
            lambda review: b"[]",
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got no object",
        ),
    ],
)
async def test_an_answer_that_is_wrong(answer: Any, why: str):
    async with serving() as (api, service):
        await api.create(V1, link("a", host="h", port="1"))
        service.answer = answer
        status = (await api.request("GET", f"{V2}/a")).json
        assert status["message"] == f"{FAILED} {why}"
        assert status["code"] == 500
        assert "reason" not in status
        assert (await api.get(f"{V1}/a"))["spec"] == {"host": "h", "port": "1"}
        service.answer = renamed
        assert (await api.get(f"{V2}/a"))["spec"] == {"hostPort": "h:1"}


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        ("500 X\r\ncontent-type: text/plain", b"as told\n", 'an error on the server ("as told") has prevented'),
        ("403 X\r\ncontent-type: text/plain", b"as told\n", "as told"),
        ("404 X", b"", "the server could not find the requested resource"),
        ("503 X", b"", "the server is currently unable to handle the request"),
        ("302 X\r\nlocation: http://127.0.0.1:1/", b"", "the server responded with the status code 302 but"),
        ("400 X", json.dumps({"kind": "Status", "status": "Failure", "message": "no"}).encode(), "no"),
        ("200 OK", b"this is no review", "the answer is no ConversionReview: "),
    ],
)
async def test_an_answer_that_is_none(status: str, body: bytes, why: str):
    async with serving() as (api, service):
        service.status, service.answer = status, lambda review: body
        refused = (await api.request("POST", V2, link("a", hostPort="b:1"))).json
        assert refused["message"].startswith(f"conversion webhook for {GROUP}/v2, Kind=Link failed: {why}")


async def test_one_that_breaks_off_or_isn_t_there():
    async with serving() as (api, service):
        await api.create(V1, link("a", host="h", port="1"))
        service.breaks_off = True
        url = f"http://127.0.0.1:{service.port}/convert?timeout=30s"
        failed = (await api.request("GET", f"{V2}/a")).json
        assert failed["message"] == f'{FAILED} failed: Post "{url}": EOF'
        await service.close()
        failed = (await api.request("GET", f"{V2}/a")).json
        refused = f"dial tcp 127.0.0.1:{service.port}: connect: connection refused"
        assert failed["message"] == f'{FAILED} failed: Post "{url}": {refused}'


async def test_one_behind_a_service_that_isn_t_there():
    config = {"service": {"namespace": "web", "name": "nothing", "path": "/convert"}}
    async with serving(config=config) as (api, _):
        await api.create(V1, link("a", host="h", port="1"))
        failed = (await api.request("GET", f"{V2}/a")).json
        url = "https://nothing.web.svc:443/convert?timeout=30s"
        assert failed["message"] == f'{FAILED} failed: Post "{url}": service "nothing" not found'


async def test_one_that_hangs_leaves_others_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conversion, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(webhook_calls, "MOST_CALLS", 3)
    async with serving() as (api, service):
        await api.create(V1, link("a", host="h", port="1"))
        service.open.clear()
        waiting = [asyncio.create_task(api.request("GET", f"{V2}/a")) for _ in range(3)]
        await service.arrived.wait()
        plain = V2.replace(GROUP, "plain.example.com")
        assert (await api.create(plain, link("p", hostPort="b:1")))["metadata"]["name"] == "p"
        assert (await api.get(f"{V1}/a"))["spec"] == {"host": "h", "port": "1"}
        too_many = await api.request("GET", f"{V2}/a")
        assert (too_many.status, dict(too_many.headers)["retry-after"]) == (429, "1")
        assert "3 calls of it wait for an answer already" in too_many.json["message"]
        for answer in await asyncio.gather(*waiting):
            assert answer.json["message"].endswith("context deadline exceeded")
        service.open.set()
        assert (await api.get(f"{V2}/a"))["spec"] == {"hostPort": "h:1"}


async def test_an_answer_without_an_end_is_cut():
    async with serving() as (api, service):
        await api.create(V1, link("a", host="h", port="1"))
        service.answer = lambda review: b" " * 1_200_000
        failed = (await api.request("GET", f"{V2}/a")).json
        assert "failed: the answer has more than" in failed["message"]


async def test_a_list_while_it_fails_is_one_call():
    async with serving() as (api, service):
        for n in range(20):
            await api.create(V1, link(f"l{n}", host="h", port="1"))
        service.breaks_off = True
        assert (await api.request("GET", V2)).status == 500
        assert len(service.reviews) == 1
