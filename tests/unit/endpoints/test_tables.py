"""Tables: as recorded for typed resources, with declared columns otherwise, and the same from trees and from bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.endpoints.lists.forms import TableOptions, row_of, row_of_json, table_of, table_of_rows
from oarlock.registry.served import Served
from oarlock.schema.definition import Column, Names, ResourceDefinition, VersionDefinition

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
PLAIN = TableOptions()


def entry_of(*columns: Column, typed: bool = False) -> CatalogEntry:
    one = VersionDefinition("v1", {"type": "object"}, columns=columns)
    definition = ResourceDefinition(
        "g.example.com", Names("jugs", "Jug"), "Namespaced", (one,), "v1", "v1", typed=typed
    )
    return Catalog.of([Served(definition)]).groups["g.example.com"].of_version("v1")[0]


def jug(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "g.example.com/v1",
        "kind": "Jug",
        "metadata": {"name": "a", "creationTimestamp": "2027-01-15T07:00:00Z", "resourceVersion": "7"},
        "spec": spec,
    }


def table(entry: CatalogEntry, *trees: dict[str, Any], **options: Any) -> dict[str, Any]:
    made = table_of(entry, trees, {"resourceVersion": "9"}, TableOptions(now=NOW, **options))
    again = table_of_rows(
        entry,
        [row_of_json(entry, json.dumps(tree).encode(), TableOptions(now=NOW, **options)) for tree in trees],
        {"resourceVersion": "9"},
        TableOptions(now=NOW, **options),
    )
    assert json.loads(made) == json.loads(again)
    return json.loads(made)


@pytest.fixture
def flunders(wardle) -> CatalogEntry:
    return wardle.find("wardle.example.com", "v1alpha1", "flunders")


@pytest.mark.parametrize("number", [63, 155, 207, 211, 222, 273])
def test_typed_tables_are_as_recorded(wardle, recorded, number):
    want = recorded(number)["tree"]
    plural = "fischers" if "fischers" in recorded(number)["request"]["path"] else "flunders"
    entry = wardle.find("wardle.example.com", "v1alpha1", plural)
    rows = want["rows"] or []
    trees = [{"metadata": row["object"]["metadata"], "spec": {}} for row in rows]
    assert json.loads(table_of(entry, trees, want["metadata"], PLAIN)) == want
    bodies = [json.dumps(tree).encode() for tree in trees]
    assert (
        json.loads(table_of_rows(entry, [row_of_json(entry, b, PLAIN) for b in bodies], want["metadata"], PLAIN))
        == want
    )


def test_what_a_row_carries_of_its_object(flunders):
    tree = jug(size=3)
    assert table(flunders, tree, include_object="None")["rows"][0]["object"] is None
    assert table(flunders, tree, include_object="Metadata")["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": tree["metadata"],
    }
    assert table(flunders, tree, include_object="Object")["rows"][0]["object"] == tree


def test_a_tree_without_kind_gets_it_in_its_row(flunders):
    tree = {"metadata": {"name": "a"}, "spec": {}}
    row = json.loads(row_of(flunders, tree, TableOptions("Object")))
    assert row["object"]["kind"] == "Flunder"
    assert row["object"]["apiVersion"] == "wardle.example.com/v1alpha1"


def test_the_older_version_says_so_everywhere(flunders):
    made = table(flunders, jug(), version="v1beta1")
    assert made["apiVersion"] == made["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


def test_later_events_of_a_watch_have_no_columns(flunders):
    assert table(flunders, jug(), with_columns=False)["columnDefinitions"] is None


def test_a_bookmark_is_a_row_without_a_name(flunders):
    row = table(flunders, {"metadata": {"resourceVersion": "12"}})["rows"][0]
    assert row["cells"] == ["", "0001-01-01T00:00:00Z"]
    assert row["object"]["metadata"] == {"resourceVersion": "12"}


def test_what_declares_no_columns_shows_its_age():
    entry = entry_of()
    made = table(entry, jug())
    assert [c["name"] for c in made["columnDefinitions"]] == ["Name", "Age"]
    assert made["rows"][0]["cells"] == ["a", "60m"]
    assert table(entry)["rows"] == []
    assert table(entry, {"metadata": {}})["rows"][0]["cells"][0] == ""


def test_declared_columns_follow_the_name():
    entry = entry_of(
        Column("Size", ".spec.size", "integer"),
        Column("Of", ".spec.of", description="What is in it.", priority=1),
        Column("Full", ".spec.full", "boolean"),
        typed=True,
    )
    made = table(entry, jug(size=3, of="<milk>", full=True), jug())
    assert made["columnDefinitions"][1:] == [
        {"name": "Size", "type": "integer", "format": "", "description": "The value at .spec.size.", "priority": 0},
        {"name": "Of", "type": "string", "format": "", "description": "What is in it.", "priority": 1},
        {"name": "Full", "type": "boolean", "format": "", "description": "The value at .spec.full.", "priority": 0},
    ]
    assert [row["cells"] for row in made["rows"]] == [["a", 3, "<milk>", True], ["a", None, None, None]]


def test_a_declared_date_is_shown_as_an_age():
    entry = entry_of(Column("Filled", ".spec.at", "date"))
    cells = [row["cells"][1] for row in table(entry, jug(at="2027-01-14T08:00:00Z"), jug(at="soon"), jug())["rows"]]
    assert cells == ["24h", "<invalid>", None]


def test_markup_in_cells_is_escaped(flunders):
    tree = jug()
    tree["metadata"]["name"] = "<b>&"
    assert b'"\\u003cb\\u003e\\u0026"' in row_of(flunders, tree, PLAIN)


def test_the_shared_table_of_conversions(shared_vectors):
    groups = shared_vectors("crd_validation.json")["groups"]
    for case in groups["tableconvertor:tableconvertor.Test_convertor_ConvertToTable.tests"]:
        added = case["fields"].get("additionalColumns")
        if not added:
            continue  # nothing but names
        types = [h["Type"] for h in case["fields"]["headers"]][1:]
        columns = [Column(c["name"], c["parser"]["input"].strip("{}"), t) for c, t in zip(added, types, strict=True)]
        rows = table(entry_of(*columns), case["args"]["obj"])["rows"]
        assert [row["cells"] for row in rows] == [row["Cells"] for row in case["want"]["Rows"]], case["name"]


def test_a_date_that_is_not_relative_is_shown_as_the_time_it_is():
    made = table(entry_of(Column("At", ".spec.at", "date", relative=False)), jug(at="2027-01-14T08:00:00Z"), jug())
    assert [row["cells"][1] for row in made["rows"]] == ["2027-01-14T08:00:00Z", "0001-01-01T00:00:00Z"]
