"""The versions of the kind Foo say the same: nothing gets lost between v2 and v1."""

from collections.abc import Callable
from typing import Any

from oarlock.testing import TestClient, assert_round_trips

from hello.api.v1.foo import Foo as FooV1
from hello.api.v2.foo import Foo

FOOS = "/apis/hello.zeng.dev/{}/namespaces/default/foos"


def test_no_version_loses_anything() -> None:
    assert_round_trips(Foo, FooV1)


def test_the_image_is_an_annotation_in_v1(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    made = client.post(FOOS.format("v2"), sample("foo"))
    assert made.status == 201, made.json
    other = client.get(f"{FOOS.format('v1')}/example")
    assert other.json["apiVersion"] == "hello.zeng.dev/v1"
    assert other.json["spec"] == made.json["spec"]["config"]
    assert other.json["metadata"]["annotations"] == {"spec.image": "busybox:1.37"}


def test_what_is_written_in_v1_has_an_image_in_v2(client: TestClient) -> None:
    made = client.post(FOOS.format("v1"), {"metadata": {"name": "old"}, "spec": {"msg": "ahoy"}})
    assert made.status == 201, made.json
    hub = client.get(f"{FOOS.format('v2')}/old").json
    assert hub["spec"] == {"image": "busybox:1.36", "config": {"msg": "ahoy"}}
    assert "annotations" not in hub["metadata"]
