"""Discovery documents: as recorded, cacheable, and complete."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.discovery import DiscoveryDocuments
from oarlock.endpoints.http import Response
from oarlock.endpoints.routing.index import PathsIndex, ServerVersion
from oarlock.endpoints.routing.index import respond as version
from oarlock.meta.errors import NoSuchPath, NotAcceptable
from oarlock.meta.kinds import GroupVersionKind
from oarlock.registry.served import Served, VirtualMethods
from oarlock.schema.definition import Names, ResourceDefinition, Scale, Subresource, VersionDefinition

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
def documents(wardle):
    return DiscoveryDocuments(wardle, ":18444")


def ask(documents: DiscoveryDocuments, *how: str, **more: Any) -> Response | None:
    return asyncio.run(documents.respond(*how, **more))


def answer(documents: DiscoveryDocuments, path: str, accept: str = "application/json", etag: str = "") -> Response:
    response = ask(documents, path, accept, etag)
    assert response is not None
    return response


@pytest.mark.parametrize("number", [4, 6, 15, 18])
def test_documents_are_as_recorded(documents, recorded, number):
    exchange = recorded(number)
    request = exchange["request"]
    response = answer(documents, request["path"], request["headers"]["Accept"])
    assert json.loads(response.body) == exchange["tree"]
    assert len(response.body) == len(exchange["text"])
    headers = dict(response.headers)
    assert headers["content-type"] == exchange["headers"]["content-type"]
    assert headers.get("vary") == exchange["headers"].get("vary")
    if number == 6:
        assert headers["cache-control"] == exchange["headers"]["cache-control"] == "public"


def test_yaml_says_the_same(documents, recorded):
    response = answer(documents, "/apis", "application/yaml")
    assert dict(response.headers)["content-type"] == "application/yaml"
    assert response.body.decode() == recorded(11)["text"]


@pytest.mark.parametrize("number", [7, 16])
def test_what_is_not_acceptable_is_as_recorded(documents, recorded, number):
    exchange = recorded(number)
    with pytest.raises(NotAcceptable) as failure:
        ask(documents, exchange["request"]["path"], exchange["request"]["headers"]["Accept"])
    assert failure.value.status() == exchange["tree"]


def test_a_slash_at_the_end_changes_nothing(documents):
    for path in ("/apis", "/apis/wardle.example.com", "/apis/wardle.example.com/v1beta1"):
        assert answer(documents, path + "/").body == answer(documents, path).body


def test_a_client_with_a_fallback_gets_v2(documents):
    accept = f"{V2},{V2.replace('v=v2', 'v=v2beta1')},application/json"
    assert json.loads(answer(documents, "/apis", accept).body)["kind"] == "APIGroupDiscoveryList"


def test_an_unchanged_document_is_not_sent_again(documents):
    first = dict(answer(documents, "/apis", V2).headers)
    again = answer(documents, "/apis", V2, first["etag"])
    assert (again.status, again.body) == (304, b"")
    assert dict(again.headers)["etag"] == first["etag"]
    assert answer(documents, "/apis", V2, '"OTHER"').status == 200
    assert len(first["etag"]) == 130
    assert first["etag"] == first["etag"].upper()


def test_nothing_is_found_outside_the_served_groups(documents):
    for path in ("/api", "/api/v1", "/apis/nope.example.com", "/apis/nope.example.com/v1", "/", "/apis//v1", "/apisx"):
        assert ask(documents, path) is None
    with pytest.raises(NoSuchPath):
        ask(documents, "/apis/wardle.example.com/v9")


def gallery() -> Catalog:
    pour = Subresource("pour", ("create",), GroupVersionKind("g.example.com", "v1", "Pour"))
    log = Subresource("log", ("get",), GroupVersionKind("g.example.com", "v1", "Jug"))
    v1 = VersionDefinition(
        "v1", {"type": "object"}, status=True, scale=Scale(".spec.n", ".status.n"), subresources=(pour, log)
    )
    names = Names("jugs", "Jug", short_names=("jg",), categories=("all",))
    jugs = ResourceDefinition("g.example.com", names, "Namespaced", (v1,), "v1", "v1")
    sayings = ResourceDefinition(
        "g.example.com",
        Names("sayings", "Saying"),
        "Cluster",
        (VersionDefinition("v1", {"type": "object"}),),
        "v1",
        "v1",
    )

    async def get(*_):
        return None

    core = ResourceDefinition(
        "", Names("nods", "Nod"), "Cluster", (VersionDefinition("v1", {"type": "object"}),), "v1", "v1"
    )
    return Catalog.of([Served(jugs), Served(sayings, virtual=VirtualMethods(get=get)), Served(core)])


def test_subresources_names_and_virtual_resources():
    documents = DiscoveryDocuments(gallery())
    resources = json.loads(answer(documents, "/apis/g.example.com/v1").body)["resources"]
    assert [(r["name"], r["kind"], r["verbs"]) for r in resources[1:]] == [
        ("jugs/log", "Jug", ["get"]),
        ("jugs/pour", "Pour", ["create"]),
        ("jugs/scale", "Scale", ["get", "patch", "update"]),
        ("jugs/status", "Jug", ["get", "patch", "update"]),
        ("sayings", "Saying", ["get"]),
    ]
    assert resources[0]["shortNames"] == ["jg"]
    assert resources[0]["categories"] == ["all"]
    assert (resources[3]["group"], resources[3]["version"]) == ("autoscaling", "v1")
    assert "group" not in resources[4]
    assert "storageVersionHash" not in resources[5]
    items = json.loads(answer(documents, "/apis", V2).body)["items"]
    assert [i["metadata"]["name"] for i in items] == ["g.example.com"]
    jug = items[0]["versions"][0]["resources"][0]
    assert [(s["subresource"], s["responseKind"]) for s in jug["subresources"]] == [
        ("log", {"group": "", "version": "", "kind": "Jug"}),
        ("pour", {"group": "", "version": "", "kind": "Pour"}),
        ("scale", {"group": "autoscaling", "version": "v1", "kind": "Scale"}),
        ("status", {"group": "", "version": "", "kind": "Jug"}),
    ]


def test_a_core_group_lives_under_api():
    documents = DiscoveryDocuments(gallery(), "host:1")
    assert json.loads(answer(documents, "/api").body) == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "host:1"}],
    }
    assert json.loads(answer(documents, "/api/v1").body)["groupVersion"] == "v1"
    assert [i["metadata"] for i in json.loads(answer(documents, "/api", V2).body)["items"]] == [{}]


def test_a_server_of_nothing_says_so():
    documents = DiscoveryDocuments(Catalog.of([]))
    assert json.loads(answer(documents, "/apis").body)["groups"] == []
    assert json.loads(answer(documents, "/apis", V2).body)["items"] == []


def test_an_indented_document(documents):
    response = ask(documents, "/apis", pretty=True)
    assert response is not None
    assert response.body.startswith(b'{\n  "kind": "APIGroupList",\n')


def test_the_index_of_paths(wardle, recorded):
    exchange = recorded(2)
    others = [p for p in exchange["tree"]["paths"] if p.startswith(("/healthz", "/livez", "/readyz", "/metrics"))]
    index = PathsIndex(wardle, others)
    missing = index.respond("/api")
    assert (missing.status, missing.body.decode()) == (404, exchange["text"])
    assert index.respond("/").status == index.respond("/index.html").status == 200


def test_the_version_has_every_field_clients_read(recorded):
    response = version(ServerVersion("0.1.0"))
    tree = json.loads(response.body)
    assert tree.keys() == recorded(22)["tree"].keys()
    assert tree["gitVersion"] == "v1.36.2+oarlock-0.1.0"
    assert [tree[f"{name}Minor"] for name in ("emulation", "minCompatibility")] == ["36", "35"]


def test_the_version_is_another_kubernetes(recorded):
    tree = json.loads(version(ServerVersion("0.1.0", "v1.31", "1.30.4")).body)
    assert [tree["minor"], tree["gitVersion"]] == ["31", "v1.31.0+oarlock-0.1.0"]
    assert [tree[f"{name}Minor"] for name in ("emulation", "minCompatibility")] == ["30", "29"]
