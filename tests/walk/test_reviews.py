"""What a cluster is answered when it asks about objects of declared classes: reviews of admission and conversion."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from webhook_home import GROUP, Berths, BerthV1, BerthV1alpha1

from oarlock import Admission, APIServer, Review
from oarlock.apps.webhooks.server import WebhookServer, reviewed
from oarlock.registry.kept_fields import ANNOTATION
from oarlock.testing.server import InMemory

pytestmark = pytest.mark.anyio

Tree = dict[str, Any]


class Notes(Admission[BerthV1]):
    """Notes who asked for what."""

    waits = False

    async def validate(self, review: Review[BerthV1]) -> None:
        review.ctx.notes.audit("harbour.example.com/asked-by", f"{review.user.name} for {review.name}")


def nobody() -> Any:
    raise AssertionError("nothing follows the cluster")


@pytest.fixture
async def api() -> AsyncIterator[InMemory]:
    server = APIServer(serve=[Berths, BerthV1alpha1], admission=[Notes()])
    webhooks = WebhookServer(
        resources=reviewed(server.catalog.resources), code=server.user_code, connect=nobody, name="harbour"
    )
    async with InMemory(webhooks) as running:
        yield running


def berth(version: str = "v1", **spec: Any) -> Tree:
    metadata = {"name": "a", "namespace": "default"}
    ship = {"ship" if version == "v1" else "vessel": "argo"}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Berth", "metadata": metadata, "spec": {**ship, **spec}}


def review(new: Tree | None, old: Tree | None = None, *, version: str = "v1", **fields: Any) -> Tree:
    place = {"group": GROUP, "version": version}
    request = {
        "uid": "u-1",
        "kind": {**place, "kind": "Berth"},
        "resource": {**place, "resource": "berths"},
        "name": "a",
        "namespace": "default",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "ann", "groups": ["crew"]},
        "object": new,
        "oldObject": old,
        **fields,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


async def answer(api: InMemory, path: str, asked: Tree) -> Tree:
    answered = await api.post(path, asked)
    assert answered.status == 200, answered.json
    found: Tree = answered.json
    assert found["response"]["uid"] == "u-1"
    return found["response"]


def patch_of(response: Tree) -> list[Tree]:
    assert response["patchType"] == "JSONPatch"
    operations: list[Tree] = json.loads(base64.b64decode(response["patch"]))
    return operations


async def test_the_patch_has_what_hooks_make_and_no_more(api: InMemory) -> None:
    response = await answer(api, "/mutate", review(berth(depth=3)))
    assert response["allowed"]
    operations = {(one["op"], one["path"]): one["value"] for one in patch_of(response)}
    assert operations == {
        ("add", "/spec/pilot"): "harbour-master",
        ("add", "/spec/checked"): "argo/0",
    }


async def test_an_object_that_hooks_leave_as_it_is_has_no_patch(api: InMemory) -> None:
    whole = berth(depth=3, pilot="x", checked="argo/0")
    response = await answer(api, "/mutate", review(whole))
    assert response == {"uid": "u-1", "allowed": True}


async def test_an_object_that_breaks_its_schema_is_left_to_the_cluster(api: InMemory) -> None:
    for spec in ({"ship": 3}, {"ship": "argo", "depth": "deep"}, {}):
        broken = {**berth(), "spec": spec}
        assert await answer(api, "/mutate", review(broken)) == {"uid": "u-1", "allowed": True}


async def test_every_error_of_validate_is_a_cause_with_its_field(api: InMemory) -> None:
    wrong = berth(ropes=[{"length": 1, "knot": ""}, {"length": 500, "knot": ""}])
    wrong["spec"]["ship"] = "ghost"
    response = await answer(api, "/validate", review(wrong))
    assert not response["allowed"]
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.ropes[1].length", "spec.ship"]


async def test_the_user_who_asked_the_cluster_is_the_user_hooks_see(api: InMemory) -> None:
    response = await answer(api, "/validate", review(berth()))
    assert response["auditAnnotations"] == {"asked-by": "ann for a"}


async def test_warnings_go_to_the_client(api: InMemory) -> None:
    response = await answer(api, "/mutate", review(berth(depth=60)))
    assert response["warnings"] == ["spec.depth: nobody dives there"]


async def test_a_spoke_is_reviewed_in_the_hub_and_answered_in_its_own_version(api: InMemory) -> None:
    response = await answer(api, "/mutate", review(berth("v1alpha1"), version="v1alpha1"))
    operations = {one["path"]: one["value"] for one in patch_of(response)}
    assert operations["/spec/checked"] == "argo/0"
    assert "/spec/vessel" not in operations


async def test_an_update_carries_along_what_the_live_object_does(api: InMemory) -> None:
    kept = json.dumps({"spec": {"ship": "argo", "ropes": [{"length": 7, "knot": ""}]}})
    old = berth("v1alpha1", depth=3, pilot="x", checked="argo/1")
    old["metadata"]["annotations"] = {ANNOTATION: kept}
    new = berth("v1alpha1", depth=4, pilot="x", checked="argo/1")
    response = await answer(api, "/mutate", review(new, old, version="v1alpha1"))
    [operation] = patch_of(response)
    assert operation["path"] == "/metadata/annotations"
    carried = json.loads(operation["value"][ANNOTATION])
    assert carried["spec"]["ropes"] == [{"length": 7, "knot": ""}]
    refused = await answer(api, "/validate", review(berth("v1alpha1", depth=2), old, version="v1alpha1"))
    assert not refused["allowed"]


async def test_the_rest_of_an_object_is_hidden_in_a_review_of_its_status(api: InMemory) -> None:
    old = berth(depth=3, pilot="x", checked="argo/0")
    new = {**berth(depth=60, pilot="x", checked="argo/0"), "status": {"note": "fine"}}
    response = await answer(api, "/mutate", review(new, old, subResource="status"))
    assert response == {"uid": "u-1", "allowed": True}


async def test_objects_of_several_versions_are_converted_together_in_their_order(api: InMemory) -> None:
    request = {
        "uid": "u-1",
        "desiredAPIVersion": f"{GROUP}/v1",
        "objects": [berth("v1alpha1", depth=1), berth("v1", depth=2), berth("v1alpha1", depth=3)],
    }
    asked = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    response = await answer(api, "/convert", asked)
    assert response["result"] == {"status": "Success"}
    made = response["convertedObjects"]
    assert [(one["apiVersion"], one["spec"]["ship"], one["spec"]["depth"]) for one in made] == [
        (f"{GROUP}/v1", "argo", depth) for depth in (1, 2, 3)
    ]


async def test_what_cannot_be_converted_is_told(api: InMemory) -> None:
    for wanted, tree, why in (
        (f"{GROUP}/v9", berth(), "has no version v9"),
        ("other.example.com/v1", berth(), "isn't known here"),
        (f"{GROUP}/v1alpha1", {**berth(), "spec": {"ship": 3}}, "spec.ship"),
    ):
        request = {"uid": "u-1", "desiredAPIVersion": wanted, "objects": [tree]}
        asked = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
        response = await answer(api, "/convert", asked)
        assert response["result"]["status"] == "Failure"
        assert why in response["result"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/mutate", b"{", "is no AdmissionReview"),
        ("/mutate", b"[]", "is no AdmissionReview"),
        ("/validate", {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v9"}, "is no AdmissionReview"),
        ("/validate", {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}, "has no request"),
        ("/validate", review(berth(), operation="CONNECT"), "the review's operation is 'CONNECT'"),
        ("/validate", review(berth(), version="v7"), "there is no such version"),
        ("/validate", review(berth(), subResource="moor"), "there is no such subresource"),
        ("/validate", review(berth(), resource={"group": "", "resource": "pods"}), "of which nothing is known here"),
        ("/validate", review(berth(), object=3), "is no object with metadata"),
        ("/convert", review(berth()), "is no ConversionReview"),
        ("/convert", {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}, "has no request"),
    ],
)
async def test_what_is_no_review_is_a_bad_request(api: InMemory, path: str, body: Any, why: str) -> None:
    answered = await api.post(path, body)
    assert answered.status == 400
    assert why in answered.json["message"]


async def test_reviews_are_posted(api: InMemory) -> None:
    assert (await api.get("/mutate")).status == 405


async def test_reviews_are_counted_among_requests_and_plugins(api: InMemory) -> None:
    await answer(api, "/validate", review(berth()))
    page = (await api.get("/metrics")).body.decode()
    assert 'subresource="/validate"' in page
    assert 'name="Notes"' in page
