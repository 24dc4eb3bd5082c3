"""What clients see of the kind Database."""

from oarlock.testing import TestClient

SHOP = "/apis/db.example.com/v1/namespaces/shop/databases"


def database(name: str, **spec: object) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"engine": "postgres", **spec}}


def test_what_cannot_be_is_refused_with_every_reason(client: TestClient) -> None:
    made = client.post(SHOP, database("orders", storageGi=20))
    assert made.json["spec"] == {"engine": "postgres", "storageGi": 20, "replicas": 1}
    changed = client.patch(f"{SHOP}/orders", {"spec": {"engine": "sqlite", "storageGi": 10, "replicas": 2}})
    assert changed.status == 422
    refused = {cause["field"] for cause in changed.json["details"]["causes"]}
    assert refused == {"spec.engine", "spec.storageGi", "spec.replicas"}


def test_an_old_client_sees_the_size_as_a_text(client: TestClient) -> None:
    client.post(SHOP, database("orders", storageGi=20))
    old = client.get(f"{SHOP}/orders".replace("v1", "v1beta1"))
    assert old.json["spec"]["size"] == "20Gi"
    assert old.warnings == ["db.example.com/v1beta1 Database is deprecated; use db.example.com/v1 Database"]
