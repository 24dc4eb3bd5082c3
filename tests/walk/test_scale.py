"""``/scale``: GET, PUT and PATCH of how many, on declared, CRD-shaped and virtual resources."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from walk_kit import GROUP, causes, failure, made, path, walk

from oarlock import (
    Admission,
    APIServer,
    Context,
    Denied,
    FieldError,
    Ge,
    Invalid,
    Le,
    Model,
    Resource,
    Review,
    Scale,
    StoredCollection,
    VirtualCollection,
)
from oarlock.registry.served import Served
from oarlock.registry.write.scale import Scaling
from oarlock.schema.compiled import SchemaError
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.testing.server import InMemory

JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PATHS = Scale(".spec.oars", ".status.oars", ".status.selector")


class RowersSpec(Model):
    """What is wanted."""

    oars: Annotated[int, Le(8)] = 1
    name: str = ""


class RowersStatus(Model):
    """What there is."""

    oars: int | None = None
    selector: str | None = None


class Rowers(Resource, group=GROUP, version="v1", plural="rowers", status_subresource=True, scale=PATHS):
    """People in a row."""

    spec: RowersSpec
    status: RowersStatus | None = None


class RowersCollection(StoredCollection[Rowers]):
    """Seven is refused, and an odd crew gets a coxswain."""

    def prepare(self, new: Rowers, old: Rowers | None, ctx: Context) -> None:
        new.spec.name = "coxed" if new.spec.oars % 2 else ""

    def validate(self, new: Rowers, old: Rowers | None, ctx: Context) -> Any:
        found: list[FieldError] = []
        if new.spec.oars == 7:
            found.append(Invalid("spec.oars", 7, "not seven"))
        return found


class NoSixes(Admission[Rowers], operations=["UPDATE"], subresources=["scale"]):
    async def mutate(self, review: Review[Rowers]) -> None:
        if review.subresource == "scale" and review.object.spec.oars == 5:
            review.object.spec.oars = 4

    async def validate(self, review: Review[Rowers]) -> None:
        assert review.old_object is not None
        if review.object.spec.oars == 6:
            raise Denied(f"no sixes in {review.subresource}")


class Flock(Resource, group=GROUP, version="v1", scale=Scale(".size", ".size")):
    """Birds somewhere else."""

    size: Annotated[int, Ge(0)] = 0


class Flocks(VirtualCollection[Flock]):
    """Birds, kept in a dict."""

    def __init__(self) -> None:
        self.kept = {"geese": Flock(size=3)}
        self.kept["geese"].metadata.name = "geese"

    async def get(self, name: str, ctx: Context) -> Flock | None:
        return self.kept.get(name)

    async def update(self, new: Flock, expected_version: str, ctx: Context) -> Flock:
        self.kept[new.metadata.name] = new
        return new


class Statue(Resource, group=GROUP, version="v1", scale=Scale(".size", ".size")):
    """What nobody scales."""

    size: int = 0


class Statues(VirtualCollection[Statue]):
    async def get(self, name: str, ctx: Context) -> Statue | None:
        return Statue(size=2)


def pile(**facts: Any) -> Served:
    """What a CRD would declare, with nothing that must be there."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = Scale(".spec.replicas", ".status.replicas")
    names = Names("piles", "Pile")
    version = VersionDefinition("v1", schema, scale=scale, **facts)
    return Served(ResourceDefinition(GROUP, names, "Cluster", (version,), hub="v1", stored_as="v1", typed=False))


ROWERS = path("rowers", version="v1")
FLOCKS = path("flocks", version="v1")
PILES = path("piles", version="v1", namespace="")


def server() -> InMemory:
    return InMemory(APIServer(serve=[RowersCollection, Flocks, Statues, pile()], admission=[NoSixes()]))


def rowers(name: str = "a", oars: int = 2) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"x": "y"}}, "spec": {"oars": oars}}


@walk
async def test_an_object_is_shown_as_a_scale():
    async with server() as api:
        first = await made(api, ROWERS, rowers())
        await api.patch(ROWERS + "/a/status", {"status": {"oars": 1, "selector": "x=y"}})
        answer = await api.get(ROWERS + "/a/scale")
        assert answer.status == 200
        metadata = {k: first["metadata"][k] for k in ("name", "namespace", "uid", "creationTimestamp")}
        version = (await api.get(ROWERS + "/a")).json["metadata"]["resourceVersion"]
        assert answer.json == {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {**metadata, "resourceVersion": version},
            "spec": {"replicas": 2},
            "status": {"replicas": 1, "selector": "x=y"},
        }
        assert failure(await api.get(ROWERS + "/zz/scale"))[0:2] == (404, "NotFound")
        assert failure(await api.get(ROWERS + "/a/scale?resourceVersion=x"))[0] == 400


@walk
async def test_a_scale_as_a_table_as_metadata_and_as_yaml():
    async with server() as api:
        await made(api, ROWERS, rowers(oars=0))
        table = (await api.get(ROWERS + "/a/scale", accept=TABLE)).json
        assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
        assert table["rows"][0]["cells"] == ["a", 0, 0, "0s"]
        view = (await api.get(ROWERS + "/a/scale", accept=TABLE.replace("Table", "PartialObjectMetadata"))).json
        assert view["kind"] == "PartialObjectMetadata"
        assert view["metadata"]["name"] == "a"
        assert b"replicas: 0" in (await api.get(ROWERS + "/a/scale", accept="application/yaml")).body


@walk
async def test_a_put_changes_the_object_and_counts_a_generation():
    async with server() as api:
        first = await made(api, ROWERS, rowers())
        scale = (await api.get(ROWERS + "/a/scale")).json
        answer = await api.put(ROWERS + "/a/scale", {**scale, "spec": {"replicas": 3}, "status": {"replicas": 9}})
        assert (answer.status, answer.json["spec"], answer.json["status"]) == (200, {"replicas": 3}, {"replicas": 0})
        now = (await api.get(ROWERS + "/a")).json
        assert now["spec"] == {"oars": 3, "name": "coxed"}
        assert now["metadata"]["labels"] == {"x": "y"}
        assert now["metadata"]["generation"] == first["metadata"]["generation"] + 1
        assert answer.json["metadata"]["resourceVersion"] == now["metadata"]["resourceVersion"]
        same = await api.put(ROWERS + "/a/scale", answer.json)
        assert same.json == answer.json
        stale = await api.put(ROWERS + "/a/scale", scale)
        assert failure(stale)[0:2] == (409, "Conflict")
        unconditional = {"metadata": {"name": "a"}, "spec": {"replicas": 4}}
        assert (await api.put(ROWERS + "/a/scale", unconditional)).json["spec"] == {"replicas": 4}
        other = {"metadata": {"name": "a", "uid": "not-it"}, "spec": {"replicas": 1}}
        why = (
            'Operation cannot be fulfilled on rowers.walk.example.com "a": Precondition failed: UID in precondition: '
            f"not-it, UID in object meta: {first['metadata']['uid']}"
        )
        assert failure(await api.put(ROWERS + "/a/scale", other)) == (409, "Conflict", why)


@walk
async def test_patches():
    async with server() as api:
        await made(api, ROWERS, rowers(oars=0))
        where = ROWERS + "/a/scale"
        assert (await api.patch(where, {"spec": {"replicas": 4}})).json["spec"] == {"replicas": 4}
        steps = [{"op": "test", "path": "/spec/replicas", "value": 4}, {"op": "remove", "path": "/spec/replicas"}]
        assert (await api.patch(where, steps, JSON_PATCH)).json["spec"] == {"replicas": 0}
        steps = [{"op": "replace", "path": "/spec/replicas", "value": 2}]
        assert (await api.patch(where, steps, JSON_PATCH)).json["spec"] == {"replicas": 2}
        stale = {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 3}}
        assert failure(await api.patch(where, stale))[0] == 409
        assert (await api.patch(where, {"metadata": {"labels": {"z": "z"}}})).status == 200
        assert (await api.get(ROWERS + "/a")).json["metadata"]["labels"] == {"x": "y"}
        dry = await api.patch(where + "?dryRun=All", {"spec": {"replicas": 8}})
        assert dry.json["spec"] == {"replicas": 8}
        assert (await api.get(where)).json["spec"] == {"replicas": 2}
        assert failure(await api.patch(ROWERS + "/zz/scale", {"spec": {"replicas": 8}}))[0:2] == (404, "NotFound")


@walk
async def test_the_rules_of_the_object_hold():
    async with server() as api:
        await made(api, ROWERS, rowers())
        where = ROWERS + "/a/scale"
        refused = await api.patch(where, {"spec": {"replicas": 9}})
        assert failure(refused)[0:2] == (422, "Invalid")
        assert refused.json["details"]["kind"] == "Rowers"
        assert causes(refused) == ["spec.oars"]
        assert causes(await api.patch(where, {"spec": {"replicas": 7}})) == ["spec.oars"]
        negative = await api.patch(where, {"spec": {"replicas": -1}})
        why = 'Scale.autoscaling "a" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
        assert failure(negative) == (422, "Invalid", why)
        assert failure(await api.patch(where, {"spec": {"replicas": 6}})) == (
            403, "Forbidden", 'rowers.walk.example.com "a" is forbidden: no sixes in scale',
        )  # fmt: skip
        assert (await api.patch(where, {"spec": {"replicas": 5}})).json["spec"] == {"replicas": 4}


@walk
async def test_bodies_that_are_no_scale():
    async with server() as api:
        await made(api, ROWERS, rowers())
        where = ROWERS + "/a/scale"
        for wrong in (
            rowers() | {"apiVersion": f"{GROUP}/v1", "kind": "Rowers"},
            {"metadata": {"name": "b"}, "spec": {"replicas": 1}},
            {"spec": {"replicas": 1}},
            {"metadata": {"name": "a", "namespace": "elsewhere"}},
            {"metadata": {"name": "a"}, "spec": {"replicas": "2"}},
            {"metadata": {"name": "a"}, "spec": {"replicas": 2**31}},
            {"metadata": {"name": "a"}, "spec": [1]},
            {"metadata": "a"},
            [],
            7,
            b"{",
        ):
            assert failure(await api.put(where, wrong))[0] == 400, wrong
        typo = {"metadata": {"name": "a"}, "spec": {"replicsa": 2, "replicas": 3}}
        strict = await api.put(where + "?fieldValidation=Strict", typo)
        assert 'unknown field "spec.replicsa"' in failure(strict)[2]
        warned = await api.put(where + "?fieldValidation=Warn", typo)
        assert 'unknown field \\"spec.replicsa\\"' in warned.headers["warning"]
        assert (await api.put(where + "?fieldValidation=Ignore", typo)).json["spec"] == {"replicas": 3}
        assert failure(await api.patch(where, {"kind": "Other"}))[0] == 400
        assert failure(await api.patch(where, {"spec": 1}))[0] == 422
        assert failure(await api.post(where, {}))[0] == 405
        assert failure(await api.delete(where))[0] == 405
        assert failure(await api.patch(where, {}, "text/plain"))[0] == 415
        assert (await api.get(where)).json["spec"] == {"replicas": 3}


@walk
async def test_what_doesnt_say_how_many():
    async with server() as api:
        await made(api, PILES, {"metadata": {"name": "a"}, "status": {"replicas": 2}})
        where = PILES + "/a/scale"
        why = 'Internal error occurred: the spec replicas field ".spec.replicas" does not exist'
        assert failure(await api.get(where)) == (500, "InternalError", why)
        nothing = failure(await api.patch(where, {"metadata": {"labels": {"a": "b"}}}))
        assert nothing == (400, "BadRequest", 'the spec replicas field ".spec.replicas" cannot be empty')
        assert (await api.patch(where, {"spec": {"replicas": 3}})).json["spec"] == {"replicas": 3}
        assert (await api.get(where)).json["status"] == {"replicas": 2}
        for strange in ({"spec": {"replicas": "many"}}, {"spec": {"replicas": 2.5}}, {"spec": {"replicas": True}}):
            await api.patch(PILES + "/a", strange)
            assert failure(await api.get(where))[0] == 500
            assert failure(await api.patch(where, {"spec": {"replicas": 1}}))[0] == 500
        await api.patch(PILES + "/a", {"spec": None})
        await api.patch(PILES + "/a", {"spec": 7})
        assert failure(await api.patch(where, {"spec": {"replicas": 1}}))[0] == 500


def applied(replicas: object, **metadata: str) -> dict[str, Any]:
    spec = {} if replicas is None else {"replicas": replicas}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", **metadata}, "spec": spec}


@walk
async def test_replicas_are_applied_and_owned():
    async with server() as api:
        await made(api, ROWERS + "?fieldManager=maker", rowers())
        where = ROWERS + "/a/scale"

        async def apply(body: Any, who: str = "scaler", more: str = "") -> Any:
            return await api.patch(f"{where}?fieldManager={who}{more}", body, "application/apply-patch+yaml")

        refused = await apply(applied(4))
        assert failure(refused)[0:2] == (409, "Conflict")
        assert causes(refused) == [".spec.oars"]
        forced = await apply(applied(4), more="&force=true")
        assert (forced.status, forced.json["kind"], forced.json["spec"]) == (200, "Scale", {"replicas": 4})
        entries = (await api.get(ROWERS + "/a")).json["metadata"]["managedFields"]
        (mine,) = (entry for entry in entries if entry["manager"] == "scaler")
        assert mine["fieldsV1"] == {"f:spec": {"f:oars": {}}}
        assert (mine["subresource"], mine["operation"]) == ("scale", "Apply")
        assert mine["apiVersion"] == f"{GROUP}/v1"
        assert (await apply(applied(4))).json == forced.json, "nothing changed"
        patched = await api.patch(where + "?fieldManager=other", {"spec": {"replicas": 2}})
        assert patched.status == 200
        assert failure(await apply(applied(4)))[0] == 409
        assert failure(await apply(applied(None)))[0:2] == (400, "BadRequest")
        assert failure(await apply(applied(-1)))[0:2] == (422, "Invalid")
        assert failure(await apply(applied(2, uid="other")))[0] == 409
        assert failure(await apply(applied(2, resourceVersion="1")))[0] == 409
        assert failure(await apply(applied("2")))[0] == 400
        assert failure(await apply({**applied(2), "spek": 1}))[0] == 400
        assert failure(await apply({**rowers(), "apiVersion": f"{GROUP}/v1", "kind": "Rowers"}))[0] == 400
        missing = await api.patch(ROWERS + "/b/scale?fieldManager=x", applied(1), "application/apply-patch+yaml")
        assert failure(missing)[0:2] == (404, "NotFound")


@walk
async def test_many_writers_lose_nothing():
    async with server() as api:
        await made(api, ROWERS, rowers(oars=0))

        async def scale(n: int) -> int:
            return (await api.patch(ROWERS + "/a/scale", {"spec": {"replicas": n % 4}})).status

        async def label(n: int) -> int:
            return (await api.patch(ROWERS + "/a", {"metadata": {"labels": {f"l{n}": "1"}}})).status

        answers = await asyncio.gather(*(f(n) for n in range(10) for f in (scale, label)))
        assert set(answers) == {200}
        labels = (await api.get(ROWERS + "/a")).json["metadata"]["labels"]
        assert set(labels) == {"x", *(f"l{n}" for n in range(10))}


@walk
async def test_a_virtual_resource_scales_when_it_can_be_read_and_updated():
    async with server() as api:
        where = FLOCKS + "/geese/scale"
        assert (await api.get(where)).json["spec"] == {"replicas": 3}
        assert (await api.patch(where, {"spec": {"replicas": 5}})).json["spec"] == {"replicas": 5}
        assert (await api.get(FLOCKS + "/geese")).json["size"] == 5
        put = {"metadata": {"name": "geese"}, "spec": {"replicas": 0}}
        assert (await api.put(where, put)).json["status"] == {"replicas": 0}
        assert failure(await api.get(FLOCKS + "/none/scale"))[0] == 404
        statue = path("statues", "liberty", version="v1") + "/scale"
        assert (await api.get(statue)).json["spec"] == {"replicas": 2}
        assert failure(await api.put(statue, put))[0] == 405


@walk
async def test_discovery_and_openapi_name_the_kind():
    async with server() as api:
        listed = (await api.get(f"/apis/{GROUP}/v1")).json["resources"]
        found = {entry["name"]: entry for entry in listed}
        scale = found["rowers/scale"]
        assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
        assert scale["verbs"] == ["get", "patch", "update"]
        assert found["statues/scale"]["verbs"] == ["get"]
        document = (await api.get(f"/openapi/v3/apis/{GROUP}/v1")).json
        operation = document["paths"][f"/apis/{GROUP}/v1/namespaces/{{namespace}}/rowers/{{name}}/scale"]["get"]
        gvk = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        assert operation["x-kubernetes-group-version-kind"] == gvk
        assert "io.k8s.api.autoscaling.v1.Scale" in document["components"]["schemas"]


@pytest.mark.parametrize("where", [".spec.list[0]", "{.a.b[*]}", ".a[", ""])
def test_paths_that_are_no_chain_of_names_are_refused(where: str):
    definition = pile().definition
    with pytest.raises(SchemaError, match="scale"):
        Scaling(definition, Scale(where, ".status.replicas"))
    with pytest.raises(SchemaError, match="scale"):
        Scaling(definition, Scale(".spec.replicas", where))
