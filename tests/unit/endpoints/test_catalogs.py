"""A catalog tells its entries apart and shows them in the order clients expect."""

from __future__ import annotations

import pytest

from oarlock.endpoints.catalog import Catalog, CatalogError
from oarlock.meta.kinds import GroupResource, GroupVersion, GroupVersionKind
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


def test_what_did_not_change_is_the_same_in_the_next_catalog():
    apes, hats = served("apes", "Ape", version("v1")), served("hats", "Hat", version("v1"), group="a.example.com")
    before = Catalog.of([apes, hats])
    after = before.changed(put=[served("dogs", "Dog", version("v1"))])
    assert after.generation == 2
    assert after.groups["a.example.com"] is before.groups["a.example.com"]
    assert after.groups["g.example.com"] is not before.groups["g.example.com"]
    assert after.find("g.example.com", "v1", "apes") is before.find("g.example.com", "v1", "apes")
    assert after.find("g.example.com", "v1", "dogs") is not None
    assert before.find("g.example.com", "v1", "dogs") is None
    change = after.since(before)
    assert [one.definition.names.plural for one in change.put] == ["dogs"]
    assert change.removed == ()


def test_a_catalog_listed_anew_shares_what_is_the_same():
    apes, dogs = served("apes", "Ape", version("v1")), served("dogs", "Dog", version("v1"), version("v2"))
    hats = served("hats", "Hat", version("v1"), group="a.example.com")
    before = Catalog.of([apes, dogs, hats])
    entry = before.find("g.example.com", "v1", "apes")
    new_dogs = served("dogs", "Dog", version("v1"))
    after = Catalog.of([hats, new_dogs, apes]).sharing(before)
    assert after.groups["a.example.com"] is before.groups["a.example.com"]
    assert after.find("g.example.com", "v1", "apes") is entry
    assert after.find("g.example.com", "v1", "dogs").served is new_dogs
    assert after.find("g.example.com", "v2", "dogs") is None
    assert after.group("g.example.com").versions == ("v1",)
    assert [*after.groups] == ["a.example.com", "g.example.com"]
    assert after.since(before).put == (new_dogs,)
    assert Catalog.of([dogs, apes, hats]).sharing(before).since(before) == ((), ())


def test_a_group_goes_with_its_last_resource():
    apes, hats = served("apes", "Ape", version("v1")), served("hats", "Hat", version("v1"), group="a.example.com")
    before = Catalog.of([apes, hats])
    hat = GroupResource("a.example.com", "hats")
    after = before.changed(remove=[hat, GroupResource("b.example.com", "x"), GroupVersion("g.example.com", "v1")])
    assert [*after.groups] == ["g.example.com"]
    assert after.since(before) == ((), (hat,))
    assert after.resources == (apes,)


def test_a_change_that_cannot_be_is_refused_and_the_catalog_is_what_it_was():
    before = Catalog.of([served("apes", "Ape", version("v1"))])
    for put in (
        [served("monkeys", "Ape", version("v1"))],
        [served("dogs", "Dog", version("v1")), served("dogs", "Cat", version("v1"))],
    ):
        with pytest.raises(CatalogError):
            before.changed(put=put)
    assert [one.definition.names.plural for one in before.resources] == ["apes"]
    swapped = before.changed(
        put=[served("monkeys", "Ape", version("v1"))], remove=[GroupResource("g.example.com", "apes")]
    )
    assert [one.definition.names.plural for one in swapped.resources] == ["monkeys"]


def test_a_resource_that_is_served_in_no_version_is_not_shown():
    catalog = Catalog.of([served("apes", "Ape", version("v1", served=False))])
    assert catalog.in_order() == []
    assert catalog.group("g.example.com") is None
    assert not catalog.serves("g.example.com", "v1")
    assert [one.definition.names.plural for one in catalog.resources] == ["apes"]
