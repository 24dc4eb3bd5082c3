"""A conversation with wardle over TLS, by cases of our own: what the API's conventions say of each answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from oarlock.cli.loading import load_server
from oarlock.testing import HTTPClient, ServerThread

WARDLE = Path(__file__).resolve().parents[2] / "examples" / "wardle" / "server.py"
GROUP = "/apis/wardle.example.com"
OLD, NEW = "/v1alpha1/namespaces/{}/flunders", "/v1beta1/namespaces/{}/flunders"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HTTPClient]:
    with ServerThread(load_server(str(WARDLE)), folder=tmp_path_factory.mktemp("wardle")) as running:
        yield running.client()


@pytest.fixture
def old(request: pytest.FixtureRequest) -> str:
    """The path of v1alpha1 in a namespace of the test's own."""
    return GROUP + OLD.format(request.node.name.partition("[")[0].replace("_", "-")[:60])


def flunder(name: str, reference: str = "", **metadata: Any) -> dict[str, Any]:
    spec = {"reference": reference} if reference else {}
    metadata = {"name": name, **metadata}
    return {"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/nothing", 404, None),
        ("GET", "/api", 404, None),
        ("GET", "/apis/nobody.example.com", 404, None),
        ("GET", GROUP + "/v9", 404, None),
        ("GET", GROUP + "/v1beta1/fischers", 404, None),
        ("GET", GROUP + "/v1alpha1/fischers/missing", 404, "NotFound"),
        ("PUT", GROUP + "/v1alpha1/fischers/missing", 400, "BadRequest"),
        ("PATCH", GROUP + "/v1alpha1/fischers/missing", 415, None),
        ("POST", GROUP + "/v1alpha1/fischers", 400, "BadRequest"),
        ("POST", GROUP + "/v1alpha1/fischers/one", 405, "MethodNotAllowed"),
        ("POST", "/apis", 405, None),
        ("GET", GROUP + "/v1alpha1/fischers?limit=many", 400, "BadRequest"),
        ("GET", GROUP + "/v1alpha1/fischers?labelSelector=a+in+b", 400, "BadRequest"),
        ("GET", GROUP + "/v1alpha1/fischers?fieldSelector=spec.a%3Db", 400, "BadRequest"),
        ("GET", GROUP + "/v1alpha1/fischers?resourceVersion=newest", 400, "BadRequest"),
        ("GET", GROUP + "/v1alpha1/fischers?resourceVersionMatch=Exact", 422, "Invalid"),
        ("GET", GROUP + "/v1alpha1/fischers?continue=elsewhere", 400, "BadRequest"),
        ("DELETE", GROUP + "/v1alpha1/fischers/missing", 404, "NotFound"),
    ],
)
def test_what_is_refused_is_refused_with_a_reason(
    client: HTTPClient, method: str, path: str, status: int, reason: str | None
) -> None:
    answer = client.request(method, path, b"" if method in ("POST", "PUT", "PATCH") else None)
    assert answer.status == status, answer
    if reason is not None:
        assert (answer.json["kind"], answer.json["status"]) == ("Status", "Failure")
        assert (answer.json["reason"], answer.json["code"]) == (reason, status)


def test_discovery(client: HTTPClient) -> None:
    [group] = client.get("/apis").json["groups"]
    assert group["name"] == "wardle.example.com"
    assert [version["version"] for version in group["versions"]] == ["v1beta1", "v1alpha1"]
    listed = {one["name"]: one for one in client.get(GROUP + "/v1alpha1").json["resources"]}
    assert listed["flunders"]["namespaced"]
    assert not listed["fischers"]["namespaced"]
    assert {"get", "list", "watch", "create", "update", "patch", "delete"} <= set(listed["flunders"]["verbs"])
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    whole = client.get("/apis", accept=accept)
    assert whole.json["kind"] == "APIGroupDiscoveryList"
    assert whole.headers["content-type"] == accept
    assert client.get("/apis", accept=accept, if_none_match=whole.headers["etag"]).status == 304
    assert yaml.safe_load(client.get("/apis", accept="application/yaml").body) == client.get("/apis").json


def test_openapi(client: HTTPClient) -> None:
    index = client.get("/openapi/v3").json["paths"]
    for version in ("v1alpha1", "v1beta1"):
        url = index[f"apis/wardle.example.com/{version}"]["serverRelativeURL"]
        document = client.get(url)
        assert "immutable" in document.headers["cache-control"]
        assert GROUP + f"/{version}/namespaces/{{namespace}}/flunders/{{name}}" in document.json["paths"]
        kinds = {
            kind["kind"]
            for schema in document.json["components"]["schemas"].values()
            for kind in schema.get("x-kubernetes-group-version-kind", ())
        }
        assert {"Flunder", "FlunderList"} <= kinds
    old_hash = client.get(f"/openapi/v3{GROUP}/v1beta1?hash=0")
    assert (old_hash.status, "hash=" in old_hash.headers["location"]) == (301, True)
    assert client.get("/openapi/v2").json["swagger"] == "2.0"


def test_probes_and_version(client: HTTPClient) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert client.get(path).body == b"ok"
        verbose = client.get(f"{path}?verbose").body.decode().splitlines()
        assert verbose[-1] == f"{path[1:]} check passed"
        assert all(line.startswith("[+]") for line in verbose[:-1])
    assert "excluded" in client.get("/readyz?verbose&exclude=ping").body.decode()
    assert client.get("/livez/ping").body == b"ok"
    assert {"major", "minor", "gitVersion", "platform"} <= client.get("/version").json.keys()
    assert "/apis/wardle.example.com/v1beta1" in client.get("/").json["paths"]


def test_what_is_created_is_shown_in_both_versions(client: HTTPClient, old: str) -> None:
    made = client.post(old, flunder("a", "b"))
    assert made.status == 201
    metadata = made.json["metadata"]
    assert {"uid", "resourceVersion", "creationTimestamp", "managedFields"} <= metadata.keys()
    assert "deprecated" in made.warnings[0]
    new = client.get(old.replace("v1alpha1", "v1beta1") + "/a")
    assert new.warnings == []
    assert new.json["apiVersion"] == "wardle.example.com/v1beta1"
    assert new.json["spec"]["flunderReference"] == "b"
    assert new.json["metadata"]["uid"] == metadata["uid"]
    again = client.post(old, flunder("a"))
    assert (again.status, again.json["reason"]) == (409, "AlreadyExists")


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": ""}, "metadata.name"),
        ({"name": "a/b"}, "metadata.name"),
        ({"labels": {"-": "x"}}, "metadata.labels"),
        ({"annotations": {"a b": "x"}}, "metadata.annotations"),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "n", "uid": "u"}]}, "metadata.ownerReferences"),
        ({"finalizers": ["no domain"]}, "metadata.finalizers"),
    ],
)
def test_metadata_that_is_refused_is_named(client: HTTPClient, old: str, metadata: dict[str, Any], field: str) -> None:
    refused = client.post(old, flunder(**{"name": "x", **metadata}))
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    causes = refused.json["details"]["causes"]
    assert causes[0]["field"].startswith(field)
    assert set(causes[0]) == {"reason", "message", "field"}


def test_writes_are_based_on_what_was_read(client: HTTPClient, old: str) -> None:
    first = client.post(old, flunder("a")).json
    first["spec"]["reference"] = "b"
    second = client.put(f"{old}/a", first)
    assert second.status == 200
    assert second.json["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    assert (second.json["metadata"].get("generation"), first["metadata"].get("generation")) in ((2, 1), (None, None))
    stale = client.put(f"{old}/a", first)
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    same = client.put(f"{old}/a", second.json)
    assert same.json["metadata"]["resourceVersion"] == second.json["metadata"]["resourceVersion"]
    other = {**second.json, "metadata": {**second.json["metadata"], "uid": "another"}}
    assert client.put(f"{old}/a", other).status == 409


def test_patches_of_every_kind(client: HTTPClient, old: str) -> None:
    client.post(old, flunder("a", labels={"x": "1", "y": "2"}))
    merged = client.patch(f"{old}/a", {"metadata": {"labels": {"x": None}}})
    assert merged.json["metadata"]["labels"] == {"y": "2"}
    steps = [{"op": "test", "path": "/metadata/labels/y", "value": "2"}, {"op": "remove", "path": "/metadata/labels"}]
    assert "labels" not in client.patch(f"{old}/a", steps, "application/json-patch+json").json["metadata"]
    failed = client.patch(f"{old}/a", steps, "application/json-patch+json")
    assert (failed.status, failed.json["reason"]) == (422, "Invalid")
    unknown = client.patch(f"{old}/a", {}, "application/patch-of-tomorrow")
    assert (unknown.status, unknown.json["reason"]) == (415, "UnsupportedMediaType")


def test_appliers_own_what_they_say(client: HTTPClient, old: str) -> None:
    def apply(manager: str, reference: str, force: bool = False) -> Any:
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        return client.patch(f"{old}/a{query}", flunder("a", reference), APPLY)

    assert apply("one", "b").status == 201
    taken = apply("two", "c")
    assert (taken.status, taken.json["reason"]) == (409, "Conflict")
    [cause] = taken.json["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".spec.reference")
    forced = apply("two", "c", force=True).json
    owners = {one["manager"]: one["fieldsV1"] for one in forced["metadata"]["managedFields"]}
    assert owners["two"] == {"f:spec": {"f:reference": {}}}
    assert "f:spec" not in owners.get("one", {})
    assert client.patch(f"{old}/a", flunder("a"), APPLY).status == 422  # nobody applies without a name


def test_dry_runs_and_strict_bodies(client: HTTPClient, old: str) -> None:
    assert client.post(f"{old}?dryRun=All", flunder("a")).status == 201
    assert client.get(f"{old}/a").status == 404
    odd = {**flunder("b"), "spec": {"reference": "x", "colour": "red"}}
    told = client.post(old, odd)
    assert told.status == 201
    assert 'unknown field "spec.colour"' in told.warnings
    strict = client.post(f"{old}?fieldValidation=Strict", {**odd, "metadata": {"name": "c"}})
    assert (strict.status, 'unknown field "spec.colour"' in strict.json["message"]) == (400, True)
    wrong = client.post(old, {**flunder("d"), "spec": {"reference": 5}})
    assert wrong.status in (400, 422)
    assert "spec.reference" in wrong.json["message"]


def test_lists_are_snapshots_in_pages(client: HTTPClient, old: str) -> None:
    for name in "abcde":
        client.post(old, flunder(name, labels={"vowel": str(name in "ae").lower()}))
    first = client.get(f"{old}?limit=2").json
    assert [one["metadata"]["name"] for one in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    client.delete(f"{old}/d")
    rest = client.get(f"{old}?limit=9&continue={first['metadata']['continue']}").json
    assert [one["metadata"]["name"] for one in rest["items"]] == ["c", "d", "e"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    chosen = client.get(f"{old}?labelSelector=vowel%3Dtrue&fieldSelector=metadata.name!%3De").json["items"]
    assert [one["metadata"]["name"] for one in chosen] == ["a"]


def test_tables_and_metadata_alone(client: HTTPClient, old: str) -> None:
    client.post(old, flunder("a", "b"))
    table = client.get(old, accept=TABLE).json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["columnDefinitions"][0]["name"] == "Name"
    assert table["rows"][0]["cells"][0] == "a"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    [item] = client.get(old, accept=partial).json["items"]
    assert "spec" not in item
    assert client.get(old, accept=partial.replace("List", "")).status == 406
    assert yaml.safe_load(client.get(f"{old}/a", accept="application/yaml").body)["spec"] == {"reference": "b"} | (
        {"referenceType": "Flunder"}
    )


def test_deletions_wait_for_finalizers(client: HTTPClient, old: str) -> None:
    made = client.post(old, flunder("a", finalizers=["example.com/hold"])).json
    wrong = client.delete(f"{old}/a", {"preconditions": {"uid": "another"}})
    assert (wrong.status, wrong.json["reason"]) == (409, "Conflict")
    leaving = client.delete(f"{old}/a").json
    assert leaving["metadata"]["deletionTimestamp"]
    more = client.patch(f"{old}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}})
    assert (more.status, more.json["reason"]) == (422, "Invalid")
    client.patch(f"{old}/a", {"metadata": {"finalizers": None}})
    assert client.get(f"{old}/a").status == 404
    client.post(old, flunder("b"))
    gone = client.delete(f"{old}/b").json
    assert (gone["kind"], gone["status"], gone["details"]["uid"] != made["metadata"]["uid"]) == (
        "Status",
        "Success",
        True,
    )


def test_a_watch_tells_what_happens_from_where_a_list_was(client: HTTPClient, old: str) -> None:
    client.post(old, flunder("a"))
    at = client.get(old).json["metadata"]["resourceVersion"]
    client.patch(f"{old}/a", {"spec": {"reference": "b"}})
    with client.watch(f"{old}?resourceVersion={at}") as events:
        client.delete(f"{old}/a")
        told = [events.next(), events.next()]
    assert [kind for kind, _ in told] == ["MODIFIED", "DELETED"]


def test_a_disallowed_name_is_forbidden_by_the_plugin(client: HTTPClient, old: str) -> None:
    fischer = {"apiVersion": "wardle.example.com/v1alpha1", "kind": "Fischer", "disallowedFlunders": ["bad"]}
    assert client.post(GROUP + "/v1alpha1/fischers", {**fischer, "metadata": {"generateName": "f-"}}).status == 201
    refused = client.post(old, flunder("bad"))
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert json.loads(refused.body)["message"].endswith("this name may not be used, please change the resource name")
