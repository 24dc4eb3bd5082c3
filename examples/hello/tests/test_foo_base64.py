"""What clients see of foos/base64."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from oarlock.testing import TestClient

GROUP = "/apis/hello.zeng.dev"
FOOS = "namespaces/default/foos"
Sample = Callable[[str], dict[str, Any]]


def asked(field: str = "") -> dict[str, Any]:
    return {"apiVersion": "transformation.zeng.dev/v1beta1", "kind": "Base64", "spec": {"fieldPath": field}}


@pytest.mark.parametrize(("version", "field"), [("v1", "spec.msg"), ("v2", ".spec.config.msg")])
def test_it_answers_a_field_of_the_version_that_is_asked(
    client: TestClient, sample: Sample, version: str, field: str
) -> None:
    assert client.post(f"{GROUP}/v2/{FOOS}", sample("foo")).status == 201
    answered = client.post(f"{GROUP}/{version}/{FOOS}/example/base64", asked(field))
    assert answered.status == 201, answered.json
    assert json.loads(base64.b64decode(answered.json["status"]["output"])) == "ahoy"


def test_it_answers_the_whole_object_unless_a_field_is_given(client: TestClient, sample: Sample) -> None:
    kept = client.post(f"{GROUP}/v2/{FOOS}", sample("foo")).json
    answered = client.post(f"{GROUP}/v2/{FOOS}/example/base64", asked())
    assert json.loads(base64.b64decode(answered.json["status"]["output"])) == kept


def test_what_is_not_there_is_told(client: TestClient, sample: Sample) -> None:
    assert client.post(f"{GROUP}/v2/{FOOS}", sample("foo")).status == 201
    refused = client.post(f"{GROUP}/v2/{FOOS}/example/base64", asked("spec.nothing"))
    assert (refused.status, refused.json["message"]) == (400, "undefined field path spec.nothing")
    assert client.post(f"{GROUP}/v2/{FOOS}/missing/base64", asked()).status == 404
