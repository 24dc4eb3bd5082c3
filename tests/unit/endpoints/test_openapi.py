"""OpenAPI documents: the operations that were recorded, schemas kubectl can read, and how they are cached."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from oarlock import Doc, IntOrString, Model, Quantity, Resource, served_from
from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.endpoints.http import BodySource, Response
from oarlock.endpoints.openapi import Info, OpenAPIDocuments
from oarlock.endpoints.openapi.documents import AT_ONCE
from oarlock.endpoints.openapi.kinds import kind_schemas
from oarlock.endpoints.openapi.parts import Part, RenderedParts, Renderer
from oarlock.endpoints.openapi.protobuf import double, integer, text
from oarlock.meta.kinds import GroupVersionKind
from oarlock.registry.served import Served
from oarlock.schema.definition import Names, ResourceDefinition, Scale, Subresource, VersionDefinition

PATCHES = ("application/json-patch+json", "application/merge-patch+json")


def patches(definition: ResourceDefinition) -> tuple[str, ...]:
    return PATCHES


V2_PROTO = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V3_PROTO = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
METHODS_V2 = {2: "get", 3: "put", 4: "post", 5: "delete", 8: "patch"}
METHODS_V3 = {4: "get", 5: "put", 6: "post", 7: "delete", 10: "patch"}
NOW = 1_800_000_000.0


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: numbers and raw values."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = 8 if key & 7 == 1 else varint()
            yield key >> 3, data[at : at + size]
            at += size


def first(data: bytes, *numbers: int) -> Any:
    """The first field of each number, from the outside in."""
    value: Any = data
    for number in numbers:
        value = next(v for n, v in fields(value) if n == number)
    return value


def operations(document: bytes, paths: int, inner: int, methods: dict[int, str]) -> set[tuple[str, str, str, str]]:
    """Method, path, operation id and tag of every operation of a document in protobuf."""
    found = set()
    for number, item in fields(first(document, paths)):
        if number == inner:
            path = first(item, 1).decode()
            for method, operation in fields(first(item, 2)):
                if method in methods:
                    identity, tag = first(operation, 5).decode(), first(operation, 1).decode()
                    found.add((methods[method], path, identity, tag))
    return found


def names(document: bytes, *numbers: int) -> set[str]:
    return {first(item, 1).decode() for number, item in fields(first(document, *numbers)) if number == 1}


@pytest.fixture
def documents(wardle) -> OpenAPIDocuments:
    return OpenAPIDocuments(wardle, Info("Wardle", "0.1", patches))


def of(index: Catalog, patch_types: Any, before: OpenAPIDocuments | None = None) -> OpenAPIDocuments:
    return OpenAPIDocuments(index, Info("oarlock", "0.1", patch_types), before=before)


def ask(documents: OpenAPIDocuments, path: str, *how: Any, **more: Any) -> Response | None:
    return asyncio.run(documents.respond(path, *how, **more))


def pieces(body: BodySource) -> Iterator[bytes]:
    while not body.done:
        yield body.read(50_000)


def get(documents: OpenAPIDocuments, path: str, accept: str = "", etag: str = "", query=()) -> Response:
    response = ask(documents, path, query, accept, etag, now=NOW)
    assert response is not None
    if isinstance(response.body, BodySource):
        response.body = b"".join(pieces(response.body))
    return response


def tree(documents: OpenAPIDocuments, path: str) -> dict[str, Any]:
    return json.loads(get(documents, path).body)


def test_the_v2_operations_are_as_recorded(documents, recorded):
    want = operations(base64.b64decode(recorded(37)["response"]["body_b64"]), 8, 2, METHODS_V2)
    response = get(documents, "/openapi/v2", V2_PROTO)
    assert dict(response.headers)["content-type"] == recorded(37)["headers"]["content-type"]
    got = operations(response.body, 8, 2, METHODS_V2)
    assert got == {op for op in want if "/watch/" not in op[1]}
    assert first(response.body, 2, 1) == b"Wardle"


def test_the_v3_operations_are_as_recorded(documents, recorded):
    path = "/openapi/v3/apis/wardle.example.com/v1alpha1"
    want = operations(base64.b64decode(recorded(46)["response"]["body_b64"]), 4, 1, METHODS_V3)
    response = get(documents, path, V3_PROTO)
    assert dict(response.headers)["content-type"] == recorded(46)["headers"]["content-type"]
    got = operations(response.body, 4, 1, METHODS_V3)
    assert got == {op for op in want if "/watch/" not in op[1]}
    json_paths = tree(documents, path)["paths"]
    assert {(m, p) for p, item in json_paths.items() for m in item if m != "parameters"} == {op[:2] for op in got}


def test_the_shared_schemas_are_those_recorded(documents, recorded):
    want = names(base64.b64decode(recorded(37)["response"]["body_b64"]), 9)
    got = names(get(documents, "/openapi/v2", V2_PROTO).body, 9)
    assert {name for name in want if "wardle" not in name} <= got
    assert {name for name in got if "wardle" in name} == {
        "com.example.wardle.v1alpha1.Fischer",
        "com.example.wardle.v1alpha1.FischerList",
        "com.example.wardle.v1alpha1.Flunder",
        "com.example.wardle.v1alpha1.FlunderList",
        "com.example.wardle.v1beta1.Flunder",
        "com.example.wardle.v1beta1.FlunderList",
    }


@pytest.mark.parametrize("number", [40, 44])
def test_the_small_documents_are_as_recorded(documents, recorded, number):
    exchange = recorded(number)
    got = tree(documents, exchange["request"]["path"])
    want = exchange["tree"]
    assert got["info"] == want["info"]
    assert got["openapi"] == want["openapi"]
    assert list(got["paths"]) == list(want["paths"])
    assert got["components"]["schemas"].keys() == want["components"]["schemas"].keys()
    for name, schema in want["components"]["schemas"].items():
        mine = got["components"]["schemas"][name]
        assert mine["properties"].keys() == schema["properties"].keys()
        assert mine.get("required") == schema.get("required")


def test_the_index_lists_what_was_recorded(documents, recorded):
    got = tree(documents, "/openapi/v3")
    assert got.keys() == recorded(39)["tree"].keys()
    assert list(got["paths"]) == list(recorded(39)["tree"]["paths"])
    for name, item in got["paths"].items():
        path, _, wanted = item["serverRelativeURL"].partition("?hash=")
        assert path == f"/openapi/v3/{name}"
        assert dict(get(documents, path).headers)["etag"] == f'"{wanted}"'


def every_reference(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from every_reference(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from every_reference(inner)


def test_every_reference_leads_somewhere(wardle):
    for index in (wardle, gallery()):
        documents = of(index, patches)
        for name in tree(documents, "/openapi/v3")["paths"]:
            document = tree(documents, f"/openapi/v3/{name}")
            schemas = document["components"]["schemas"]
            found = {reference.removeprefix("#/components/schemas/") for reference in every_reference(document)}
            assert found == {name for name in found if name in schemas}
        document = tree(documents, "/openapi/v2")
        for reference in every_reference(document):
            _, section, name = reference.split("/")
            assert name in document[section]
        assert get(documents, "/openapi/v2", V2_PROTO).body
        assert get(documents, "/openapi/v3/apis/g.example.com/v1", V3_PROTO).status == 200


def test_a_field_may_be_called_default():
    class Limit(Model):
        default: Quantity = "1"
        properties: list[Quantity] = []

    class Policy(Resource, group="limits.example.com", version="v1"):
        spec: Limit = Limit()

    documents = OpenAPIDocuments(Catalog.of(served_from([Policy])), Info("oarlock", "0.1", patches))
    for path, root in (
        ("/openapi/v2", ("#/definitions/", "#/parameters/")),
        ("/openapi/v3/apis/limits.example.com/v1", "#/components/"),
    ):
        text = get(documents, path, "application/json").body.decode()
        references = [one.split('"')[0] for one in text.replace(" ", "").split('"$ref":"')[1:]]
        assert any(one.endswith(".Quantity") for one in references)
        assert [one for one in references if not one.startswith(root)] == []


def test_kubectl_finds_dry_run_and_validation_on_patch(documents):
    path = "/apis/wardle.example.com/v1beta1/namespaces/{namespace}/flunders/{name}"
    gvk = {"group": "wardle.example.com", "version": "v1beta1", "kind": "Flunder"}
    v3 = tree(documents, "/openapi/v3/apis/wardle.example.com/v1beta1")["paths"][path]["patch"]
    v2 = tree(documents, "/openapi/v2")["paths"][path]["patch"]
    for patch in (v3, v2):
        assert patch["x-kubernetes-group-version-kind"] == gvk
        assert patch["x-kubernetes-action"] == "patch"
        # an old kubectl looks for these two, and follows no reference
        assert {"dryRun", "fieldValidation"} <= {p.get("name") for p in patch["parameters"]}
    assert {"fieldManager", "force"} <= {p["name"] for p in v3["parameters"]}
    shared = [p["$ref"].removeprefix("#/parameters/") for p in v2["parameters"] if "$ref" in p]
    assert shared == ["body-78PwaGsr", "fieldManager-7c6nTn1T", "force-tOGGb0Yi"], "as Kubernetes names them"
    assert tuple(v3["requestBody"]["content"]) == PATCHES
    assert tuple(v2["consumes"]) == PATCHES


def test_writes_list_their_options(documents):
    paths = tree(documents, "/openapi/v3/apis/wardle.example.com/v1alpha1")["paths"]
    item = paths["/apis/wardle.example.com/v1alpha1/fischers/{name}"]
    assert [p["name"] for p in item["put"]["parameters"]] == ["dryRun", "fieldManager", "fieldValidation"]
    assert "propagationPolicy" in {p["name"] for p in item["delete"]["parameters"]}
    assert [p["name"] for p in item["parameters"]] == ["name", "pretty"]
    collection = paths["/apis/wardle.example.com/v1alpha1/fischers"]
    assert {"limit", "dryRun"} <= {p["name"] for p in collection["delete"]["parameters"]}
    assert "application/json;stream=watch" in collection["get"]["responses"]["200"]["content"]


def test_explain_reads_fields_and_descriptions(documents):
    schemas = tree(documents, "/openapi/v3/apis/wardle.example.com/v1beta1")["components"]["schemas"]
    flunder = schemas["com.example.wardle.v1beta1.Flunder"]
    assert flunder["x-kubernetes-group-version-kind"] == [
        {"group": "wardle.example.com", "kind": "Flunder", "version": "v1beta1"}
    ]
    assert flunder["description"].startswith("A flunder points")
    assert flunder["properties"]["spec"]["properties"].keys() == {
        "flunderReference",
        "fischerReference",
        "referenceType",
    }
    assert flunder["properties"]["metadata"]["allOf"][0]["$ref"].endswith("meta.v1.ObjectMeta")
    definitions = tree(documents, "/openapi/v2")["definitions"]
    assert "$ref" in definitions["com.example.wardle.v1beta1.Flunder"]["properties"]["metadata"]
    assert definitions["com.example.wardle.v1beta1.FlunderList"]["properties"]["items"]["items"] == {
        "$ref": "#/definitions/com.example.wardle.v1beta1.Flunder"
    }


def test_a_document_asked_for_by_its_hash_may_be_kept_for_a_year(documents):
    path = "/openapi/v3/apis/wardle.example.com/v1alpha1"
    etag = dict(get(documents, path).headers)["etag"]
    assert "cache-control" not in dict(get(documents, path).headers)
    kept = dict(get(documents, path, query=[("hash", etag.strip('"'))]).headers)
    assert kept["cache-control"] == "public, immutable"
    assert kept["expires"] == "Sat, 15 Jan 2028 08:00:00 GMT"
    timeless = ask(documents, path, [("hash", etag.strip('"'))])
    assert timeless is not None
    assert dict(timeless.headers)["cache-control"] == "public, immutable, max-age=31536000"


def test_another_hash_is_sent_to_the_current_one(documents, recorded):
    path = "/openapi/v3/apis/wardle.example.com/v1alpha1"
    response = get(documents, path, query=[("hash", "ABCDEF")])
    headers = dict(response.headers)
    assert (response.status, response.body) == (301, b"")
    assert headers["location"] == f"{path}?hash={headers['etag'].strip(chr(34))}"
    assert headers["vary"] == recorded(45)["headers"]["vary"]
    assert headers["content-type"] == recorded(45)["headers"]["content-type"]


def test_unknown_documents_are_empty_and_unknown_paths_are_not_ours(documents):
    response = get(documents, "/openapi/v3/apis/nope/v1")
    assert (response.status, response.body) == (200, b"")
    assert ask(documents, "/openapi/v9", now=NOW) is None
    assert ask(documents, "/openapi", now=NOW) is None


def test_an_unchanged_document_is_not_sent_again(documents):
    for path in ("/openapi/v2", "/openapi/v3", "/openapi/v3/apis/wardle.example.com/v1beta1"):
        etag = dict(get(documents, path).headers)["etag"]
        assert get(documents, path, etag=etag).status == 304
        assert get(documents, path, etag='"X"').status == 200


def test_what_cannot_be_sent_is_not_acceptable(documents, recorded):
    response = get(documents, "/openapi/v2", "application/xml")
    assert (response.status, response.body) == (406, b"")
    assert [v for k, v in response.headers if k == "vary"] == ["Accept-Encoding", "Accept"]
    assert get(documents, "/openapi/v3/version", "application/xml").status == 406
    assert get(documents, "/openapi/v2", "text/html, */*;q=0.1").status == 200


def gallery() -> Catalog:
    """A kind with every subresource, and one in the core group."""
    pour = Subresource(
        "pour",
        ("create",),
        GroupVersionKind("g.example.com", "v1", "Pour"),
        request_schema={"type": "object", "properties": {"cups": {"type": "integer"}}},
    )
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "metadata": {"type": "object"},
            "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
            "note": {"type": "string", "nullable": True, "default": "$ref", "x-oarlock-omit-empty": True},
            "more": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3},
            "ratio": {"type": "number", "minimum": -0.5, "exclusiveMinimum": True},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "not": {"type": "string", "enum": ["a", "b"], "not": {"type": "string"}},
        },
    }
    v1 = VersionDefinition(
        "v1", schema, status=True, scale=Scale(".n", ".m"), subresources=(pour,), selectable=(".spec.note",)
    )
    jugs = ResourceDefinition("g.example.com", Names("jugs", "Jug"), "Namespaced", (v1,), "v1", "v1")
    nods = ResourceDefinition(
        "", Names("nods", "Nod"), "Cluster", (VersionDefinition("v1", {"type": "object"}),), "v1", "v1"
    )
    return Catalog.of([Served(jugs), Served(nods)])


def test_subresources_have_operations_of_their_kind():
    documents = of(gallery(), patches)
    paths = tree(documents, "/openapi/v3/apis/g.example.com/v1")["paths"]
    item = "/apis/g.example.com/v1/namespaces/{namespace}/jugs/{name}"
    assert paths[f"{item}/status"].keys() == {"get", "put", "patch", "parameters"}
    assert paths[f"{item}/status"]["patch"]["operationId"] == "patchGExampleComV1NamespacedJugStatus"
    scale = paths[f"{item}/scale"]["put"]
    assert scale["x-kubernetes-group-version-kind"] == {"group": "autoscaling", "kind": "Scale", "version": "v1"}
    pour = paths[f"{item}/pour"]["post"]
    assert pour["operationId"] == "createGExampleComV1NamespacedJugPour"
    body = pour["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert body == "#/components/schemas/com.example.g.v1.Jug.pour.Request"


def test_every_answer_of_a_resource_has_a_schema():
    documents = of(gallery(), patches)
    item = tree(documents, "/openapi/v3/apis/g.example.com/v1")["paths"][
        "/apis/g.example.com/v1/namespaces/{namespace}/jugs/{name}"
    ]
    status = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status"}
    jug = {"$ref": "#/components/schemas/com.example.g.v1.Jug"}
    gone = item["delete"]["responses"]
    assert gone["default"]["content"]["application/json"]["schema"] == status
    assert gone["200"]["content"]["application/json"]["schema"] == {"anyOf": [status, jug]}
    assert item["get"]["responses"]["200"]["content"]["application/cbor"]["schema"] == jug
    bodies = {media: body["schema"] for media, body in item["patch"]["requestBody"]["content"].items()}
    assert bodies["application/json-patch+json"]["type"] == "array"
    assert bodies["application/merge-patch+json"]["$ref"].endswith(".Patch")
    old = tree(documents, "/openapi/v2")["paths"]["/apis/g.example.com/v1/namespaces/{namespace}/jugs/{name}"]
    assert old["delete"]["responses"]["200"]["schema"] == {
        "$ref": status["$ref"].replace("components/schemas", "definitions")
    }


def test_answers_without_a_code_have_a_field_of_their_own_in_protobuf():
    document = get(of(gallery(), patches), "/openapi/v3/apis/g.example.com/v1", V3_PROTO).body
    paths = [first(item, 2) for number, item in fields(first(document, 4)) if number == 1]
    answers = [first(op, 8) for path in paths[1:] for method, op in fields(path) if method in METHODS_V3]
    assert answers
    for answer in answers:
        assert first(answer, 1, 1, 1) == b"Failure"
        codes = {first(item, 1) for number, item in fields(answer) if number == 2}
        assert codes & {b"200", b"204"}
        assert b"401" in codes
        assert b"default" not in codes


def test_the_core_group_lives_under_api():
    documents = of(gallery(), lambda definition: ())
    assert list(tree(documents, "/openapi/v3")["paths"]) == [
        "api",
        "api/v1",
        "apis",
        "apis/g.example.com",
        "apis/g.example.com/v1",
        "version",
    ]
    paths = tree(documents, "/openapi/v3/api/v1")["paths"]
    assert list(paths) == ["/api/v1/", "/api/v1/nods", "/api/v1/nods/{name}"]
    assert paths["/api/v1/nods"]["get"]["operationId"] == "listCoreV1Nod"
    assert "patch" not in paths["/api/v1/nods/{name}"]


def test_v2_leaves_out_what_it_has_no_words_for():
    entry = gallery().groups["g.example.com"].of_version("v1")[0]
    name = "com.example.g.v1.Jug"
    v3 = kind_schemas(entry, v2=False)[name]["properties"]
    v2 = kind_schemas(entry, v2=True)[name]["properties"]
    assert v3["note"] == {"type": "string", "nullable": True, "default": "$ref"}
    assert v2["note"] == {}
    assert v3["port"] == {"allOf": [{"$ref": "io.k8s.apimachinery.pkg.util.intstr.IntOrString"}]}
    assert v2["port"] == {"$ref": "io.k8s.apimachinery.pkg.util.intstr.IntOrString"}
    assert v2["any"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert v2["not"] == {"type": "string", "enum": ["a", "b"]}
    assert v2["more"] == v3["more"]
    assert kind_schemas(entry, v2=True)[name]["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.note"}]


class Weighed(Resource, group="w.example.com", version="v1"):
    weight: Annotated[Quantity, Doc("How heavy.")] = 1
    limits: dict[str, Quantity] = {}
    ports: list[IntOrString] = []


def test_what_is_an_amount_or_a_number_or_a_name_is_shown_by_its_own_name():
    documents = of(Catalog.of(served_from([Weighed])), patches)
    quantity, port = "io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
    schemas = tree(documents, "/openapi/v3/apis/w.example.com/v1")["components"]["schemas"]
    found = schemas["com.example.w.v1.Weighed"]["properties"]
    at = "#/components/schemas/"
    assert found["weight"] == {"description": "How heavy.", "default": 1, "allOf": [{"$ref": at + quantity}]}
    assert found["limits"]["additionalProperties"] == {"allOf": [{"$ref": at + quantity}]}
    assert found["ports"]["items"] == {"allOf": [{"$ref": at + port}]}
    assert schemas[quantity]["oneOf"] == [{"type": "string"}, {"type": "number"}]
    assert "anyOf" not in schemas[port]
    old = tree(documents, "/openapi/v2")["definitions"]
    weight = old["com.example.w.v1.Weighed"]["properties"]["weight"]
    assert weight == {"description": "How heavy.", "$ref": "#/definitions/" + quantity}
    assert (old[quantity]["type"], old[port]["format"]) == ("string", "int-or-string")


def bare(value: Any) -> Any:
    """Without descriptions, and with references by their last word."""
    if isinstance(value, dict):
        return {k: v.rpartition(".")[2] if k == "$ref" else bare(v) for k, v in value.items() if k != "description"}
    return [bare(v) for v in value] if isinstance(value, list) else value


def entry_of(schema: dict[str, Any], version: str = "v1", selectable: tuple[str, ...] = ()) -> CatalogEntry:
    one = VersionDefinition(version, schema, selectable=selectable)
    names = Names("foos", "Foo")
    definition = ResourceDefinition("bar.k8s.io", names, "Namespaced", (one,), version, version, typed=False)
    return Catalog.of([Served(definition)]).groups["bar.k8s.io"].of_version(version)[0]


@pytest.mark.parametrize("group", ["openapi_v2", "openapi_v3", "openapi_builder"])
def test_the_shared_table_of_published_schemas(shared_vectors, group):
    for case in shared_vectors("crd_validation.json")["groups"][group]:
        if "non-structural" in case["name"] or "invalid-typed" in case["name"] or case.get("preserveUnknownFields"):
            continue  # such a definition is refused long before it is published
        v2 = case.get("v2", group == "openapi_v2")
        selected = case.get("opts", {}).get("IncludeSelectableFields")
        selectable = tuple(f["JSONPath"] for f in case.get("selectableFields", ()) if selected)
        schema = json.loads(case["schema"]) if case.get("schema") else {}
        version = case.get("version", "v1")
        published = kind_schemas(entry_of(schema, version, selectable), v2=v2)
        assert bare(published[f"io.k8s.bar.{version}.Foo"]) == bare(json.loads(case["wantedSchema"])), case["name"]
        items = published[f"io.k8s.bar.{version}.FooList"]["properties"]["items"]["items"]
        if "wantedItemsSchema" in case:
            assert bare(items) == bare(json.loads(case["wantedItemsSchema"]))


def test_numbers_on_the_wire():
    assert integer(11, 300) == b"\x58\xac\x02"
    assert integer(1, -1) == b"\x08" + b"\xff" * 9 + b"\x01"
    assert double(6, 1.5) == b"\x31" + b"\x00" * 6 + b"\xf8\x3f"
    assert text(31, "é" * 100)[:4] == b"\xfa\x01\xc8\x01"


class Asked:
    """Does a step at once, and remembers what was rendered."""

    def __init__(self) -> None:
        self.rendered: list[str] = []
        self.steps = 0

    async def __call__(self, step: Callable[..., Any], /, *args: Any) -> Any:
        await asyncio.sleep(0)  # others go on, as while a thread works
        if getattr(step, "__func__", None) is Renderer.parts:
            self.rendered += [name for name, _ in args[0]]
            self.steps += 1
        return step(*args)


def kinds(*names: str, group: str = "g.example.com", note: str = "") -> list[Served]:
    fields = {f"field{n}": {"type": "string", "description": "What it is, in a sentence."} for n in range(400)}
    schema = {"type": "object", "description": note, "properties": {"spec": {"type": "object", "properties": fields}}}
    return [
        Served(
            ResourceDefinition(
                group, Names(name.lower(), name), "Cluster", (VersionDefinition("v1", schema),), "v1", "v1", typed=False
            )
        )
        for name in names
    ]


def index_of(*served: Served) -> Catalog:
    return Catalog.of(served)


def hashes(documents: OpenAPIDocuments) -> dict[str, str]:
    paths = tree(documents, "/openapi/v3")["paths"]
    return {name: at["serverRelativeURL"].partition("?hash=")[2] for name, at in paths.items()}


def test_hashes_come_from_definitions_and_nothing_is_rendered_for_them():
    asked = Asked()
    documents = OpenAPIDocuments(index_of(*kinds("A", "B")), Info("oarlock", "0.1", patches), asked)
    first_time = hashes(documents)
    etag = dict(get(documents, "/openapi/v3/apis/g.example.com/v1", etag="").headers)["etag"]
    assert etag == f'"{first_time["apis/g.example.com/v1"]}"'
    assert asked.rendered == ["apis/g.example.com/v1"]
    assert hashes(of(index_of(*kinds("A", "B")), patches)) == first_time
    assert get(documents, "/openapi/v3/apis/g.example.com/v1", etag=etag).status == 304


def test_what_changes_a_document_changes_its_hash():
    index = index_of(*kinds("A", "B"))
    plain = hashes(of(index, patches))["apis/g.example.com/v1"]
    others = [
        hashes(of(index_of(*kinds("A")), patches)),
        hashes(of(index_of(*kinds("B", "A", note="changed")), patches)),
        hashes(of(index, lambda served: ("application/json-patch+json",))),
        hashes(OpenAPIDocuments(index, Info("another", "0.1", patches))),
        hashes(OpenAPIDocuments(index, Info("oarlock", "0.1", patches, "v0.2.0"))),
    ]
    seen = {plain, *(found["apis/g.example.com/v1"] for found in others)}
    assert len(seen) == 1 + len(others)


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/apis/g.example.com/v1"])
@pytest.mark.parametrize("accept", ["", V2_PROTO + "," + V3_PROTO])
def test_a_large_document_is_the_same_in_pieces(path: str, accept: str):
    large, small = (of(index_of(*kinds(*names)), patches) for names in ("ABCDEF", "A"))
    response = ask(large, path, [], accept)
    assert response is not None
    assert isinstance(response.body, BodySource)
    assert response.body.length is not None
    length = response.body.length
    data = b"".join(pieces(response.body))
    assert len(data) == length
    if accept:
        whole = get(small, path, accept).body
        assert {number for number, _ in fields(data)} == {number for number, _ in fields(whole)}
    else:
        document = json.loads(data)
        schemas = document["definitions"] if path.endswith("v2") else document["components"]["schemas"]
        assert {f"com.example.g.v1.{name}" for name in "ABCDEF"} <= schemas.keys()


def test_many_who_ask_at_once_have_it_rendered_once():
    asked = Asked()
    documents = OpenAPIDocuments(index_of(*kinds("A", "B")), Info("oarlock", "0.1", patches), asked)

    async def all_at_once() -> list[Response | None]:
        paths = ["/openapi/v3/apis/g.example.com/v1", "/openapi/v2"] * 10
        return await asyncio.gather(*(documents.respond(path) for path in paths))

    assert all(response is not None and response.status == 200 for response in asyncio.run(all_at_once()))
    times = {name: asked.rendered.count(name) for name in asked.rendered}
    assert times["apis/g.example.com/v1"] == 2  # in version 3, and for version 2
    assert {times[name] for name in times if name != "apis/g.example.com/v1"} == {1}


def test_many_versions_are_rendered_in_few_steps():
    asked = Asked()
    groups = [kinds("A", group=f"g{n}.example.com")[0] for n in range(100)]
    assert get(OpenAPIDocuments(index_of(*groups), Info("oarlock", "0.1", patches), asked), "/openapi/v2").status == 200
    assert len(asked.rendered) == len(set(asked.rendered)) > 200
    assert asked.steps == -(-len(asked.rendered) // AT_ONCE)


def test_one_who_stops_asking_keeps_nobody_from_having_it():
    asked = Asked()
    documents = OpenAPIDocuments(index_of(*kinds("A")), Info("oarlock", "0.1", patches), asked)

    async def one_leaves() -> Response | None:
        first_one, second = (asyncio.ensure_future(documents.respond("/openapi/v2")) for _ in range(2))
        for _ in range(100):
            if asked.rendered:
                break
            await asyncio.sleep(0)
        assert asked.rendered
        first_one.cancel()
        return await second

    response = asyncio.run(one_leaves())
    assert response is not None
    assert response.status == 200


@pytest.mark.parametrize("path", ["/openapi/v2", "every document of version 3"])
def test_only_what_changed_is_rendered_again(path: str):
    kept, changed = kinds("A"), kinds("B", group="h.example.com")
    before = of(index_of(*kept, *changed), patches)
    asked = Asked()
    index = index_of(*kept, *kinds("B", group="h.example.com", note="changed"))

    def read(documents: OpenAPIDocuments) -> None:
        for one in [path] if path == "/openapi/v2" else [f"/openapi/v3/{name}" for name in hashes(documents)]:
            get(documents, one)

    read(before)
    after = OpenAPIDocuments(index, Info("oarlock", "0.1", patches), asked, before)
    read(after)
    assert asked.rendered == ["apis/h.example.com/v1"]
    asked.rendered.clear()
    read(OpenAPIDocuments(index_of(*kept), Info("oarlock", "0.1", patches), asked, after))
    assert asked.rendered == ([""] if path == "/openapi/v2" else [])


def test_lists_of_discovery_are_replaced_as_a_whole(documents):
    shared = tree(documents, "/openapi/v2")["definitions"]
    for kind, field in (
        ("APIGroup", "versions"),
        ("APIGroup", "serverAddressByClientCIDRs"),
        ("APIGroupList", "groups"),
        ("APIResourceList", "resources"),
    ):
        found = shared["io.k8s.apimachinery.pkg.apis.meta.v1." + kind]["properties"][field]
        assert found["x-kubernetes-list-type"] == "atomic", (kind, field)


def test_rendered_parts_are_bounded_in_bytes_and_the_longest_unused_go_first():
    def part(size: int) -> Part:
        return Part("hash", (b"x" * size,), (), {})

    parts = RenderedParts(limit_bytes=100)
    form = ("v3", False)
    for name in "abc":
        parts.put((form, name), part(30))
    assert parts.get((form, "a")) is not None
    parts.put((form, "d"), part(30))
    assert [parts.get((form, name)) is not None for name in "abcd"] == [True, False, True, True]
    parts.put((form, "a"), part(5))
    parts.put((form, "e"), part(30))
    assert [parts.get((form, name)) is not None for name in "acde"] == [True] * 4
    parts.keep(lambda key: key == (form, "a"))
    assert [parts.get((form, name)) is not None for name in "acde"] == [True, False, False, False]
    parts.put((form, "f"), part(101))
    assert [parts.get((form, name)) is not None for name in "af"] == [False, False]


def test_of_a_changed_group_only_what_changed_is_rendered(monkeypatch):
    rendered: list[str] = []
    real = Renderer._entry

    def noted(self: Renderer, entry: CatalogEntry, ambiguous: frozenset[str]) -> Any:
        rendered.append(entry.gvk.kind)
        return real(self, entry, ambiguous)

    monkeypatch.setattr(Renderer, "_entry", noted)
    path = "/openapi/v3/apis/g.example.com/v1"
    before = of(index_of(*kinds("A", "B", "C")), patches)
    get(before, path)
    assert rendered == ["A", "B", "C"]
    rendered.clear()
    changed = [*kinds("A", "C", "D"), *kinds("B", note="changed")]
    after = of(index_of(*changed), patches, before)
    assert tree(after, path) == tree(of(index_of(*changed), patches), path)
    assert rendered[:2] == ["B", "D"]
    assert rendered[2:] == ["A", "B", "C", "D"], "by the one without a past"
