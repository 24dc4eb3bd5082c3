"""What clients see of the kind Foo."""

from collections.abc import Callable
from typing import Any

from oarlock.testing import TestClient

FOOS = "/apis/hello.zeng.dev/v2/namespaces/default/foos"
Sample = Callable[[str], dict[str, Any]]


def test_foo_is_kept_as_the_sample_says(client: TestClient, sample: Sample) -> None:
    wanted = sample("foo")
    made = client.post(FOOS, wanted)
    assert made.status == 201, made.json
    kept = client.get(f"{FOOS}/example")
    assert kept.json["spec"] == wanted["spec"]


def test_a_new_foo_is_processing_and_labelled_with_its_name(client: TestClient, sample: Sample) -> None:
    made = client.post(FOOS, {**sample("foo"), "status": {"phase": "Ready"}}).json
    assert made["status"] == {"phase": "Processing"}
    assert made["metadata"]["labels"] == {"hello.zeng.dev/metadata.name": "example"}
    ready = client.patch(f"{FOOS}/example/status", {"status": {"phase": "Ready"}})
    assert (ready.status, ready.json["status"]) == (200, {"phase": "Ready"})


def test_foo_is_listed_changed_and_deleted(client: TestClient, sample: Sample) -> None:
    assert client.post(FOOS, sample("foo")).status == 201
    changed = client.patch(f"{FOOS}/example", {"spec": {"config": {"msg": "goodbye"}}})
    assert changed.status == 200, changed.json
    (listed,) = client.get(FOOS).json["items"]
    assert listed["spec"]["config"] == {"msg": "goodbye", "msg1": "land in sight"}
    assert client.delete(f"{FOOS}/example").status == 200
    assert client.get(f"{FOOS}/example").status == 404


def test_foo_without_a_message_is_refused(client: TestClient, sample: Sample) -> None:
    refused = client.post(FOOS, {**sample("foo"), "spec": {"image": "busybox", "config": {"msg": ""}}})
    assert refused.status == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["spec.config.msg"]
