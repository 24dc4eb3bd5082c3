"""What clients see of the kind Computer."""

from collections.abc import Callable
from typing import Any

from oarlock.testing import TestClient

COMPUTERS = "/apis/podlogs.example.com/v1/namespaces/default/computers"


def test_computer_is_kept_as_the_sample_says(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    wanted = sample("computer")
    made = client.post(COMPUTERS, wanted)
    assert made.status == 201, made.json
    kept = client.get(f"{COMPUTERS}/example")
    assert kept.json["spec"] == made.json["spec"]
    assert wanted["spec"].items() <= kept.json["spec"].items()


def test_computer_is_listed_changed_and_deleted(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    assert client.post(COMPUTERS, sample("computer")).status == 201
    changed = client.patch(f"{COMPUTERS}/example", {"metadata": {"labels": {"seen": "yes"}}})
    assert changed.status == 200, changed.json
    (listed,) = client.get(COMPUTERS).json["items"]
    assert listed["metadata"]["labels"] == {"seen": "yes"}
    assert client.delete(f"{COMPUTERS}/example").status == 200
    assert client.get(f"{COMPUTERS}/example").status == 404


def test_computer_has_no_name_of_kubernetes(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    refused = client.post(COMPUTERS, {**sample("computer"), "metadata": {"name": "kube-example"}})
    assert refused.status == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["metadata.name"]
