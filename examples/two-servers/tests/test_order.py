"""What clients see of the kind Order."""

from collections.abc import Callable
from typing import Any

from oarlock.testing import TestClient

ORDERS = "/apis/shop.example.com/v1/namespaces/default/orders"


def test_order_is_kept_as_the_sample_says(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    wanted = sample("order")
    made = client.post(ORDERS, wanted)
    assert made.status == 201, made.json
    kept = client.get(f"{ORDERS}/example")
    assert kept.json["spec"] == made.json["spec"]
    assert wanted["spec"].items() <= kept.json["spec"].items()


def test_order_is_listed_changed_and_deleted(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    assert client.post(ORDERS, sample("order")).status == 201
    changed = client.patch(f"{ORDERS}/example", {"metadata": {"labels": {"seen": "yes"}}})
    assert changed.status == 200, changed.json
    (listed,) = client.get(ORDERS).json["items"]
    assert listed["metadata"]["labels"] == {"seen": "yes"}
    assert client.delete(f"{ORDERS}/example").status == 200
    assert client.get(f"{ORDERS}/example").status == 404


def test_order_has_no_name_of_kubernetes(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    refused = client.post(ORDERS, {**sample("order"), "metadata": {"name": "kube-example"}})
    assert refused.status == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["metadata.name"]
