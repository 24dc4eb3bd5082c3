"""What clients see of the kind Part, which is a table of SQL."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oarlock.testing import TestClient

GROUP = "/apis/warehouse.example.com/v1"
PARTS = f"{GROUP}/namespaces/basel/parts"
Sample = Callable[[str], dict[str, Any]]


def part(name: str, supplier: str = "acme", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"title": name.upper(), "supplier": supplier}}


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


@pytest.fixture
def shelf(client: TestClient) -> TestClient:
    for name, supplier, aisle in (("a", "acme", "1"), ("b", "bolts-and-sons", "1"), ("c", "acme", "2")):
        assert client.post(PARTS, part(name, supplier, aisle=aisle)).status == 201
    assert client.post(f"{GROUP}/namespaces/leeds/parts", part("a", aisle="1")).status == 201
    return client


def test_part_is_kept_as_the_sample_says(client: TestClient, sample: Sample) -> None:
    wanted = sample("part")
    made = client.post(PARTS, wanted)
    assert made.status == 201, made.json
    kept = client.get(f"{PARTS}/bolt-m8").json
    assert kept["spec"] == wanted["spec"]
    assert kept["metadata"] == made.json["metadata"]
    assert kept["metadata"]["labels"] == {"aisle": "7"}
    assert client.post(PARTS, wanted).status == 409


def test_part_is_changed_and_deleted(client: TestClient, sample: Sample) -> None:
    before = client.post(PARTS, sample("part")).json
    assert client.patch(f"{PARTS}/bolt-m8", {"spec": {"stock": 249}}).json["spec"]["stock"] == 249
    assert client.put(f"{PARTS}/bolt-m8", before).status == 409
    assert client.delete(f"{PARTS}/bolt-m8").status == 200
    assert client.get(f"{PARTS}/bolt-m8").status == 404


def test_selectors_choose(shelf: TestClient) -> None:
    assert names(shelf.get(f"{PARTS}?fieldSelector=spec.supplier%3Dacme")) == ["a", "c"]
    assert names(shelf.get(f"{PARTS}?fieldSelector=spec.supplier!%3Dacme")) == ["b"]
    assert names(shelf.get(f"{PARTS}?labelSelector=aisle%3D1")) == ["a", "b"]
    assert names(shelf.get(f"{GROUP}/parts?labelSelector=aisle%3D1")) == ["a", "b", "a"]


def test_a_list_comes_in_pages_of_one_version(shelf: TestClient) -> None:
    first = shelf.get(f"{GROUP}/parts?limit=3")
    assert shelf.delete(f"{PARTS}/a").status == 200
    metadata = first.json["metadata"]
    rest = shelf.get(f"{GROUP}/parts?limit=3&continue={metadata['continue']}")
    assert (names(first), names(rest)) == (["a", "b", "c"], ["a"])
    assert rest.json["metadata"]["resourceVersion"] == metadata["resourceVersion"]


def test_a_watch_goes_on_from_a_list(shelf: TestClient) -> None:
    version = shelf.get(PARTS).json["metadata"]["resourceVersion"]
    shelf.patch(f"{PARTS}/b", {"spec": {"supplier": "acme"}})
    with shelf.watch(f"{PARTS}?fieldSelector=spec.supplier%3Dacme&resourceVersion={version}") as events:
        kind, changed = events.next()
        assert (kind, changed["metadata"]["name"]) == ("ADDED", "b")
        shelf.delete(f"{PARTS}/b")
        kind, changed = events.next()
        assert (kind, changed["metadata"]["name"]) == ("DELETED", "b")


def test_what_another_program_writes_is_a_part_too(shelf: TestClient, database: Path) -> None:
    version = shelf.get(PARTS).json["metadata"]["resourceVersion"]
    with sqlite3.connect(database) as other:
        other.execute("UPDATE parts SET stock = 7 WHERE site = 'basel' AND sku = 'c'")
        other.execute("INSERT INTO parts (site, sku, title, supplier) VALUES ('basel', 'd', 'D', 'acme')")
    other.close()
    with shelf.watch(f"{PARTS}?resourceVersion={version}") as events:
        seen = [(kind, changed["metadata"]["name"]) for kind, changed in (events.next(), events.next())]
    assert seen == [("MODIFIED", "c"), ("ADDED", "d")]
    assert shelf.get(f"{PARTS}/c").json["spec"]["stock"] == 7
