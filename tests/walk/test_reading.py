"""GET and LIST: which state answers, pages, selectors, forms."""

from __future__ import annotations

import base64
import json

from walk_kit import ALL_BOATS, BOATS, BOATS_V1, CRATES, PORTS, boat, failure, fleet, made, path, walk


async def three(api):
    return [await made(api, BOATS, boat(name, port=name * 2, labels={"l": name})) for name in "abc"]


def names(answer):
    assert answer.status == 200, answer
    return [item["metadata"]["name"] for item in answer.json["items"]]


@walk
async def test_get_at_revisions():
    api, _ = fleet()
    async with api:
        tree = (await three(api))[0]
        rev = int(tree["metadata"]["resourceVersion"])
        for version in ("", "0", str(rev), str(rev + 1)):
            assert (await api.get(f"{BOATS}/a?resourceVersion={version}")).json == tree
        answer = await api.get(f"{BOATS}/a?resourceVersion=999")
        assert failure(answer)[0:2] == (504, "Timeout")
        assert answer.json["details"] == {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }
        assert answer.headers["retry-after"] == "1"
        assert failure(await api.get(f"{BOATS}/a?resourceVersion=x"))[0] == 400
        missing = await api.get(f"{BOATS}/zz")
        assert failure(missing) == (404, "NotFound", 'boats.walk.example.com "zz" not found')


@walk
async def test_list_at_revisions():
    api, _ = fleet()
    async with api:
        trees = await three(api)
        rev = [int(tree["metadata"]["resourceVersion"]) for tree in trees]
        await api.delete(BOATS + "/a")

        async def listed(query):
            return names(await api.get(f"{BOATS}?{query}"))

        assert await listed("") == await listed("resourceVersion=0") == ["b", "c"]
        assert await listed(f"resourceVersion={rev[0]}&resourceVersionMatch=NotOlderThan") == ["b", "c"]
        assert await listed(f"resourceVersion={rev[0]}") == ["b", "c"]
        assert await listed(f"resourceVersion={rev[1]}&resourceVersionMatch=Exact") == ["a", "b"]
        assert await listed(f"resourceVersion={rev[2]}&limit=2") == ["a", "b"]
        exact = await api.get(f"{BOATS}?resourceVersion={rev[1]}&resourceVersionMatch=Exact")
        assert exact.json["metadata"]["resourceVersion"] == str(rev[1])
        for query in ("resourceVersion=999", "resourceVersion=999&resourceVersionMatch=Exact"):
            assert failure(await api.get(f"{BOATS}?{query}"))[0:2] == (504, "Timeout")
        refused = (
            "resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=Exact", "sendInitialEvents=true",
            "resourceVersion=1&resourceVersionMatch=Other",
        )  # fmt: skip
        for query in refused:
            assert failure(await api.get(f"{BOATS}?{query}"))[0:2] == (422, "Invalid")
        for query in ("limit=x", "resourceVersion=-1", "continue=%00"):
            assert failure(await api.get(f"{BOATS}?{query}"))[0:2] == (400, "BadRequest")


@walk
async def test_a_revision_that_is_no_longer_kept_is_410():
    api, backend = fleet()
    await backend.start()
    old = (await backend.put("/registry/other", b"{}", expect=0)).rev
    await backend.put("/registry/other", b"{}", expect=old)
    await backend.compact(await backend.current_rev())
    async with api:
        await three(api)
        answer = await api.get(f"{BOATS}?resourceVersion={old}&resourceVersionMatch=Exact")
        assert failure(answer) == (410, "Expired", "The resourceVersion for the provided list is too old.")


@walk
async def test_pages_are_one_snapshot_whatever_is_written_meanwhile():
    api, _ = fleet()
    async with api:
        await three(api)
        first = await api.get(f"{BOATS}?limit=1")
        meta = first.json["metadata"]
        assert meta["remainingItemCount"] == 2
        await api.delete(BOATS + "/b")
        await made(api, BOATS, boat("bb"))
        second = await api.get(f"{BOATS}?limit=1&continue={meta['continue']}")
        assert names(second) == ["b"]
        assert second.json["metadata"]["resourceVersion"] == meta["resourceVersion"]
        third = await api.get(f"{BOATS}?limit=1&continue={second.json['metadata']['continue']}")
        assert names(third) == ["c"]
        assert "continue" not in third.json["metadata"]
        assert "remainingItemCount" not in third.json["metadata"]
        both = f"{BOATS}?continue={meta['continue']}&resourceVersion={meta['resourceVersion']}"
        assert failure(await api.get(both))[2] == "specifying resource version is not allowed when using continue"


@walk
async def test_the_continue_token_is_the_one_the_go_server_makes():
    api, _ = fleet()
    async with api:
        await three(api)
        meta = (await api.get(f"{ALL_BOATS}?limit=1")).json["metadata"]
        token = meta["continue"]
        tree = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        assert tree == {"v": "meta.k8s.io/v1", "rv": int(meta["resourceVersion"]), "start": "/default/a\0"}


@walk
async def test_an_expired_token_comes_back_as_one_that_works():
    api, backend = fleet()
    await backend.start()
    for rev in range(3):
        await backend.put("/registry/other", b"{}", expect=rev)
    await backend.compact(2)
    async with api:
        await three(api)
        token = (await api.get(f"{BOATS}?limit=1")).json["metadata"]["continue"]
        tree = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        tree["rv"] = 1
        old = base64.urlsafe_b64encode(json.dumps(tree).encode()).decode().rstrip("=")
        answer = await api.get(f"{BOATS}?limit=1&continue={old}")
        assert failure(answer)[0:2] == (410, "Expired")
        assert failure(answer)[2].startswith("The provided continue parameter is too old to display a consistent")
        fresh = answer.json["metadata"]["continue"]
        assert names(await api.get(f"{BOATS}?limit=1&continue={fresh}")) == ["b"]


@walk
async def test_what_remains_is_told_only_without_selectors():
    api, _ = fleet()
    async with api:
        await three(api)
        for query in ("labelSelector=l", "fieldSelector=metadata.name!=zz"):
            meta = (await api.get(f"{BOATS}?limit=1&{query}")).json["metadata"]
            assert "remainingItemCount" not in meta
            assert meta["continue"]
        last = (await api.get(f"{BOATS}?limit=1&labelSelector=l=c")).json["metadata"]
        assert "continue" not in last
        zero = await api.get(f"{BOATS}?limit=1&resourceVersion=0")
        assert names(zero) == ["a", "b", "c"]
        assert "continue" not in zero.json["metadata"]
        assert names(await api.get(f"{BOATS}?limit=-5")) == ["a", "b", "c"]


@walk
async def test_label_selectors():
    api, _ = fleet()
    async with api:
        await three(api)

        async def chosen(selector):
            return names(await api.get(f"{BOATS}?labelSelector={selector}"))

        assert await chosen("l%3Da") == ["a"]
        assert await chosen("l!=a") == ["b", "c"]
        assert await chosen("l+in+(a,c)") == ["a", "c"]
        assert await chosen("!l") == []
        assert await chosen("l,l+notin+(a)") == ["b", "c"]
        assert await chosen("") == ["a", "b", "c"]
        code, _, why = failure(await api.get(f"{BOATS}?labelSelector=a+in+("))
        assert code == 400
        assert why.startswith("unable to parse requirement: ")


@walk
async def test_field_selectors_are_those_of_the_version_asked():
    api, _ = fleet()
    async with api:
        await three(api)

        async def chosen(where, selector):
            return names(await api.get(f"{where}?fieldSelector={selector}"))

        assert await chosen(BOATS, "spec.port=bb") == ["b"]
        assert await chosen(BOATS, "spec.port!=bb") == ["a", "c"]
        assert await chosen(BOATS_V1, "spec.harbour=cc,spec.crew=1") == ["c"]
        assert await chosen(BOATS_V1, "spec.crew=2") == []
        assert await chosen(BOATS, "metadata.name=a") == ["a"]
        assert await chosen(BOATS, "metadata.name=zz") == []
        assert await chosen(ALL_BOATS, "metadata.name=b,metadata.namespace=default") == ["b"]
        assert await chosen(ALL_BOATS, "metadata.namespace=other") == []
        assert await chosen(ALL_BOATS, "metadata.namespace=") == []
        assert await chosen(ALL_BOATS, "metadata.name=c") == ["c"]
        for where, field in ((BOATS, "spec.harbour"), (BOATS_V1, "spec.port"), (BOATS, "spec.crew")):
            answer = await api.get(f"{where}?fieldSelector={field}=x")
            assert failure(answer) == (400, "BadRequest", f"field label not supported: {field}")
        other = failure(await api.get(f"{PORTS}?fieldSelector=depth=5"))
        assert other[2] == '"depth" is not a known field selector: only "metadata.name", "metadata.namespace"'


@walk
async def test_an_object_of_the_cluster_has_no_namespace_to_select():
    api, _ = fleet()
    async with api:
        await made(api, PORTS, {"metadata": {"name": "p"}})
        assert names(await api.get(f"{PORTS}?fieldSelector=metadata.namespace=")) == ["p"]
        assert names(await api.get(f"{PORTS}?fieldSelector=metadata.namespace=x")) == []


@walk
async def test_items_of_types_carry_no_kind_and_those_of_custom_resources_do():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        await made(api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
        boats = (await api.get(BOATS)).json
        assert (boats["kind"], boats["apiVersion"]) == ("BoatList", "walk.example.com/v2")
        assert "kind" not in boats["items"][0]
        assert (await api.get(CRATES)).json["items"][0]["kind"] == "Crate"
        empty = (await api.get(path("boats", namespace="other"))).json
        assert empty["items"] == []
        assert int(empty["metadata"]["resourceVersion"]) > 0
        old = (await api.get(path("boats", version="v1alpha1"))).json
        assert old["items"][0]["spec"] == {"harbour": "x"}


@walk
async def test_tables():
    api, _ = fleet()
    async with api:
        await three(api)
        table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        got = (await api.get(BOATS + "?limit=2", accept=table)).json
        assert (got["kind"], got["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert [c["name"] for c in got["columnDefinitions"]][:2] == ["Name", "Port"]
        assert [row["cells"][:2] for row in got["rows"]] == [["a", "aa"], ["b", "bb"]]
        assert got["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        assert got["metadata"]["remainingItemCount"] == 1
        one = (await api.get(BOATS + "/a?includeObject=Object", accept=table)).json
        assert one["rows"][0]["object"]["spec"]["port"] == "aa"
        assert (await api.get(BOATS + "?includeObject=x", accept=table)).status == 400
        missing = await api.get(BOATS + "/zz", accept=table)
        assert failure(missing)[0] == 404


@walk
async def test_metadata_only():
    api, _ = fleet()
    async with api:
        await three(api)
        one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        many = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
        got = (await api.get(BOATS, accept=many)).json
        assert got["kind"] == "PartialObjectMetadataList"
        assert got["items"][0]["kind"] == "PartialObjectMetadata"
        assert "spec" not in got["items"][0]
        assert (await api.get(BOATS + "/a", accept=one)).json["metadata"]["labels"] == {"l": "a"}
        assert (await api.get(BOATS, accept=one)).status == 406
        assert (await api.get(BOATS + "/a", accept=many)).status == 406


@walk
async def test_a_person_gets_indented_json_and_a_large_list_is_compressed():
    api, _ = fleet()
    async with api:
        await three(api)
        assert (await api.get(BOATS + "/a", user_agent="curl/8")).body.startswith(b'{\n  "apiVersion"')
        assert (await api.get(BOATS + "/a?pretty=true")).body.startswith(b'{\n  "apiVersion"')
        assert b"\n " not in (await api.get(BOATS + "/a?pretty=false", user_agent="curl/8")).body
        for i in range(12):
            await made(api, BOATS, boat(f"n{i}", tags=["t" * 12_000]))
        answer = await api.get(BOATS, accept_encoding="gzip")
        assert answer.headers["content-encoding"] == "gzip"
        assert len(answer.body) < 10_000
