"""A definition is read from and written to the shape of a CRD without losing anything."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.crd import DefinitionError, crd_errors, export_crd, parse, print_definition
from oarlock.schema.definition import Column, Names, ResourceDefinition, Scale, Subresource, VersionDefinition

PLAIN: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            }
        ],
    },
}

LABELS = st.from_regex("[a-z][a-z0-9]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=12)
SCHEMAS = st.sampled_from(
    [
        {"type": "object"},
        {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"a": {"type": "string", "x-oarlock-omit-empty": True}}}
            },
        },
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ]
)
COLUMNS = st.builds(
    Column,
    name=TEXTS.filter(bool),
    json_path=st.sampled_from([".spec.a", ".metadata.creationTimestamp", '.status.c[?(@.type=="R")].s']),
    type=st.sampled_from(["integer", "number", "string", "boolean", "date"]),
    format=st.sampled_from(["", "int32", "date-time"]),
    description=TEXTS,
    priority=st.integers(0, 3),
)
SUBRESOURCES = st.builds(
    Subresource,
    name=LABELS,
    verbs=st.lists(st.sampled_from(["create", "get", "update", "patch"]), max_size=2).map(tuple),
    kind=st.builds(GroupVersionKind, group=st.sampled_from(["", "x.example.com"]), version=LABELS, kind=LABELS),
    request_schema=st.sampled_from([{}, {"type": "object"}]),
    response_schema=st.sampled_from([{}, {"type": "object"}]),
)


@st.composite
def versions(draw: Any, name: str) -> VersionDefinition:
    deprecated = draw(st.booleans())
    scales = [None, Scale(".spec.r", ".status.r"), Scale(".spec.r", ".status.r", ".status.selector")]
    schema = draw(SCHEMAS)
    return VersionDefinition(
        name=name,
        schema=copy.deepcopy(schema),
        served=draw(st.booleans()),
        deprecated=deprecated,
        deprecation_warning=draw(TEXTS.filter(lambda text: not text or bool(text.strip()))) if deprecated else "",
        columns=tuple(draw(st.lists(COLUMNS, max_size=2))),
        selectable=(".spec.a",) if "properties" in schema and draw(st.booleans()) else (),
        status=draw(st.booleans()),
        scale=draw(st.sampled_from(scales)),
        subresources=tuple(draw(st.lists(SUBRESOURCES, max_size=2))),
    )


@st.composite
def definitions(draw: Any) -> ResourceDefinition:
    kind = draw(LABELS).capitalize()
    names = draw(st.lists(st.sampled_from(["v1", "v2", "v1beta1", "v1alpha1"]), min_size=1, unique=True))
    return ResourceDefinition(
        group=draw(LABELS) + ".example.com",
        names=Names(
            plural=draw(LABELS),
            kind=kind,
            short_names=tuple(draw(st.lists(LABELS, max_size=2))),
            categories=tuple(draw(st.lists(LABELS, max_size=2))),
        ),
        scope=draw(st.sampled_from(["Namespaced", "Cluster"])),
        versions=tuple(draw(versions(name)) for name in names),
        hub=draw(st.sampled_from(names)),
        stored_as=draw(st.sampled_from(names)),
        typed=draw(st.booleans()),
        generation=draw(st.booleans()),
        unconditional_update=draw(st.booleans()),
        create_on_update=draw(st.booleans()),
        delete_returns=draw(st.sampled_from(["status", "object"])),
        ttl_s=draw(st.none() | st.integers(1, 9999)),
        name_rule=draw(st.sampled_from(["dns-subdomain", "dns-label", "dns1035-label", "path-segment"])),
        gc_default=draw(st.sampled_from(["background", "orphan"])),
    )


@pytest.mark.slow
@examples(40)
@given(definitions())
def test_what_is_written_is_read_back(definition: ResourceDefinition) -> None:
    assert parse(print_definition(definition)) == definition


@pytest.mark.slow
@examples(40)
@given(definitions())
def test_what_is_read_is_written_back(definition: ResourceDefinition) -> None:
    tree = print_definition(definition)
    assert print_definition(parse(copy.deepcopy(tree))) == tree


@pytest.mark.slow
@examples(40)
@given(definitions())
def test_a_cluster_takes_what_is_exported(definition: ResourceDefinition) -> None:
    exported = export_crd(definition)
    assert "x-oarlock" not in repr(exported)
    assert crd_errors(exported) == []
    assert parse(exported).group_kind == definition.group_kind


def test_a_plain_crd_is_served_as_custom_resources_are() -> None:
    definition = parse(PLAIN)
    assert not definition.typed
    assert definition.hub == definition.stored_as == "v1"
    assert print_definition(definition) == PLAIN


def test_nothing_is_shared_with_the_dict() -> None:
    tree = copy.deepcopy(PLAIN)
    definition = parse(tree)
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] = "string"
    assert definition.version("v1").schema["type"] == "object"
    print_definition(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] = "string"
    assert definition.version("v1").schema["type"] == "object"


def changed(path: str, value: Any) -> Any:
    tree: Any = copy.deepcopy(PLAIN)
    *parents, last = path.split("/")
    here: Any = tree
    for step in parents:
        here = here[int(step)] if step.isdigit() else here[step]
    place: Any = int(last) if last.isdigit() else last
    if value is KeyError:
        del here[place]
    else:
        here[place] = value
    return tree


V1 = "spec/versions/0"
SCHEMA = f"{V1}/schema/openAPIV3Schema"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec", KeyError, "spec: Required value"),
        ("spec", [], 'spec: Invalid value: "array": must be of type object'),
        ("spec/group", 5, 'spec.group: Invalid value: "integer": must be of type string'),
        ("spec/group", "nodot", "should be a domain with at least one dot"),
        ("spec/names/plural", "Things", "spec.names.plural: Invalid value"),
        ("spec/names/plural", "other", 'metadata.name: Invalid value: "things.example.com": must be spec.names'),
        ("spec/names/listKind", "Thing", "kind and listKind may not be the same"),
        ("spec/names/shortNames", ["ok", "Bad!"], "spec.names.shortNames[1]"),
        ("spec/scope", "Galaxy", 'supported values: "Cluster", "Namespaced"'),
        ("spec/versions", [], "must have exactly one version marked as storage version"),
        (f"{V1}/name", "V1", "spec.versions[0].name: Invalid value"),
        (f"{V1}/served", "yes", "spec.versions[0].served"),
        (f"{V1}/schema", KeyError, "spec.versions[0].schema.openAPIV3Schema: Required value"),
        (f"{V1}/deprecationWarning", "old", "can only be set for deprecated versions"),
        (f"{V1}/additionalPrinterColumns", [{"name": "A", "type": "text", "jsonPath": ".a"}], "must be one of boolean"),
        (f"{V1}/additionalPrinterColumns", [{"name": "A", "type": "string", "jsonPath": ".a["}], "at column 4"),
        (f"{V1}/subresources", {"scale": {"specReplicasPath": ".status.r"}}, "should be a json path under .spec"),
        (f"{V1}/selectableFields", [{"jsonPath": ".metadata.name"}], "must not point to fields in metadata"),
        (f"{V1}/x-oarlock-subresources", [{"name": "log"}], "x-oarlock-subresources[0].verbs: Required value"),
        (f"{SCHEMA}/type", "array", "must be object at the root"),
        (f"{SCHEMA}/properties/spec", {"type": "strin"}, 'Unsupported value: "strin"'),
        (f"{SCHEMA}/properties/spec", {}, "properties[spec].type: Required value"),
        (f"{SCHEMA}/properties/spec", {"type": "string", "pattern": "("}, "must be a valid regular expression"),
        (f"{SCHEMA}/properties/spec", {"type": "string", "default": 5}, "properties[spec].default"),
        (f"{SCHEMA}/properties/spec", {"type": "string", "$ref": "#/x"}, "$ref is not supported"),
        (f"{SCHEMA}/properties/spec", {"type": "string", "enum": "a"}, "properties[spec].enum"),
        ("spec/x-oarlock-ttl-seconds", 0, "must be greater than 0"),
        ("spec/x-oarlock-hub", "v9", 'spec.x-oarlock-hub: Unsupported value: "v9"'),
        ("spec/x-oarlock-typo", True, "spec.x-oarlock-typo: Forbidden: is not known"),
        ("kind", "Deployment", 'kind: Unsupported value: "Deployment"'),
    ],
)
def test_mistakes_name_their_path(path: str, value: Any, expected: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(changed(path, value))
    assert expected in str(caught.value)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
PATHS = ["spec", "metadata", "spec/names", "spec/versions", V1, f"{V1}/schema", SCHEMA, f"{SCHEMA}/properties"]


@given(st.sampled_from([*PATHS, f"{V1}/subresources", f"{V1}/selectableFields", f"{SCHEMA}/items"]), ANYTHING)
def test_any_dict_is_read_or_refused(path: str, value: Any) -> None:
    tree = changed(path, value)
    if crd_errors(tree):
        with pytest.raises(DefinitionError):
            parse(tree)
    else:
        assert parse(tree).group == "example.com"


@given(ANYTHING)
def test_any_value_is_read_or_refused(value: Any) -> None:
    with pytest.raises(DefinitionError):
        parse(value)


def test_a_schema_without_end_is_refused() -> None:
    schema: Any = {"type": "string"}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(DefinitionError):
        parse(changed(SCHEMA, schema))
