"""What clients see of the kind Website."""

from collections.abc import Callable
from typing import Any

from oarlock.testing import TestClient

WEBSITES = "/apis/web.example.com/v1/namespaces/default/websites"


def test_website_is_kept_as_the_sample_says(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    wanted = sample("website")
    made = client.post(WEBSITES, wanted)
    assert made.status == 201, made.json
    kept = client.get(f"{WEBSITES}/example")
    assert kept.json["spec"] == made.json["spec"]
    assert wanted["spec"].items() <= kept.json["spec"].items()


def test_website_is_listed_changed_and_deleted(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    assert client.post(WEBSITES, sample("website")).status == 201
    changed = client.patch(f"{WEBSITES}/example", {"metadata": {"labels": {"seen": "yes"}}})
    assert changed.status == 200, changed.json
    (listed,) = client.get(WEBSITES).json["items"]
    assert listed["metadata"]["labels"] == {"seen": "yes"}
    assert client.delete(f"{WEBSITES}/example").status == 200
    assert client.get(f"{WEBSITES}/example").status == 404


def test_website_has_no_name_of_kubernetes(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    refused = client.post(WEBSITES, {**sample("website"), "metadata": {"name": "kube-example"}})
    assert refused.status == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["metadata.name"]
