"""A catalog tells its entries apart and shows them in the order clients expect."""

from __future__ import annotations

import pytest

from oarlock.endpoints.catalog import Catalog, CatalogError
from oarlock.meta.kinds import GroupVersionKind
from oarlock.registry.served import Served
from oarlock.schema.definition import Names, ResourceDefinition, Scale, Subresource, VersionDefinition


def served(plural: str, kind: str, *versions: VersionDefinition, group: str = "g.example.com") -> Served:
    name = versions[0].name
    return Served(ResourceDefinition(group, Names(plural, kind), "Namespaced", versions, name, name))


def version(name: str, **more) -> VersionDefinition:
    return VersionDefinition(name, {"type": "object"}, **more)


def test_versions_are_in_priority_order_and_resources_by_name():
    index = Catalog.of(
        [
            served("zebras", "Zebra", version("v1alpha1"), version("v1"), version("v2beta1")),
            served("apes", "Ape", version("v1"), version("v3", served=False)),
            served("hats", "Hat", version("v1"), group="a.example.com"),
        ]
    )
    assert [g.name for g in index.in_order()] == ["g.example.com", "a.example.com"]
    group = index.group("g.example.com")
    assert group is not None
    assert group.versions == ("v1", "v2beta1", "v1alpha1")
    assert [e.definition.names.plural for e in group.of_version("v1")] == ["apes", "zebras"]
    assert index.serves("g.example.com", "v1alpha1")
    assert not index.serves("g.example.com", "v3")
    assert not index.serves("nope", "v1")


def test_an_entry_is_found_by_group_version_and_resource():
    index = Catalog.of([served("apes", "Ape", version("v1"))])
    entry = index.find("g.example.com", "v1", "apes")
    assert entry is not None
    assert entry.gvk == GroupVersionKind("g.example.com", "v1", "Ape")
    assert entry.api_version == "g.example.com/v1"
    assert entry.list_kind == "ApeList"
    assert index.find("g.example.com", "v2", "apes") is None
    assert index.find("g.example.com", "v1", "ape") is None


def test_an_entry_knows_its_subresources():
    pour = Subresource("pour", ("create",), GroupVersionKind("g.example.com", "v1", "Pour"))
    one = version("v1", status=True, scale=Scale(".spec.n", ".status.n"), subresources=(pour,))
    (entry,) = Catalog.of([served("apes", "Ape", one)]).groups["g.example.com"].of_version("v1")
    assert list(entry.subresources) == ["status", "scale", "pour"]
    assert entry.subresources["scale"].kind == GroupVersionKind("autoscaling", "v1", "Scale")
    assert entry.subresources["status"].verbs == ("get", "patch", "update")


def test_two_entries_that_cannot_be_told_apart_are_refused():
    ape = served("apes", "Ape", version("v1"))
    with pytest.raises(CatalogError, match=r"the resource apes\.g\.example\.com is served twice"):
        Catalog.of([ape, served("apes", "Monkey", version("v1"))])
    with pytest.raises(CatalogError, match=r"the kind Ape\.g\.example\.com is served twice"):
        Catalog.of([ape, served("monkeys", "Ape", version("v1"))])
    assert Catalog.of([ape, served("apes", "Ape", version("v1"), group="other.example.com")]).generation == 1
