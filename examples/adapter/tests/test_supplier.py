"""What clients see of the kind Supplier, which is a REST service."""

from collections.abc import Callable
from typing import Any

from oarlock.testing import TestClient

SUPPLIERS = "/apis/warehouse.example.com/v1/suppliers"
Sample = Callable[[str], dict[str, Any]]


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


def test_supplier_is_kept_as_the_sample_says(client: TestClient, sample: Sample) -> None:
    made = client.post(SUPPLIERS, sample("supplier"))
    assert made.status == 201, made.json
    assert client.get(f"{SUPPLIERS}/nuts-united").json["spec"] == {"city": "Porto", "preferred": False}
    assert client.post(SUPPLIERS, sample("supplier")).status == 409


def test_supplier_is_changed_unless_somebody_was_faster(client: TestClient) -> None:
    before = client.get(f"{SUPPLIERS}/acme").json
    assert client.patch(f"{SUPPLIERS}/acme", {"spec": {"city": "Bern"}}).json["spec"]["city"] == "Bern"
    assert client.put(f"{SUPPLIERS}/acme", {**before, "spec": {"city": "Biel"}}).status == 409


def test_suppliers_are_selected_and_come_in_pages(client: TestClient) -> None:
    assert names(client.get(f"{SUPPLIERS}?fieldSelector=spec.preferred%3Dtrue")) == ["acme"]
    first = client.get(f"{SUPPLIERS}?limit=1")
    rest = client.get(f"{SUPPLIERS}?limit=1&continue={first.json['metadata']['continue']}")
    assert (names(first), names(rest)) == (["acme"], ["bolts-and-sons"])


def test_what_the_service_cannot_do_is_not_served(client: TestClient) -> None:
    (resource,) = [
        found
        for found in client.get("/apis/warehouse.example.com/v1").json["resources"]
        if found["name"] == "suppliers"
    ]
    assert sorted(resource["verbs"]) == ["create", "get", "list", "patch", "update"]
    assert client.delete(f"{SUPPLIERS}/acme").status == 405
