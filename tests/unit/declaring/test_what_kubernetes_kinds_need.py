"""What only Kubernetes' own kinds need of declarations, and any kind may have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import pytest

from oarlock import (
    APIServer,
    Column,
    Context,
    DeclarationError,
    MicroTime,
    Model,
    NullIfAbsent,
    OmitEmpty,
    Resource,
    StoredCollection,
    VirtualCollection,
    part,
    wire,
)
from oarlock.testing import InMemory

GROUP = "needs.example.com"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


class WorkSpec(Model):
    finalizers: list[str] = []
    names: Annotated[list[str] | None, OmitEmpty, NullIfAbsent] = None
    until: MicroTime | None = None


class WorkStatus(Model):
    phase: str = ""


class Work(
    Resource,
    group=GROUP,
    version="v1",
    finalizers_at=".spec.finalizers",
    delete_collection=False,
    columns=[
        Column("Names", expression="has(self.spec.names) ? size(self.spec.names) : 0"),
        Column("Name", ".metadata.name", format="name"),
        Column("Old", ".metadata.creationTimestamp", "age"),
    ],
):
    """Work that somebody else finishes."""

    spec: WorkSpec = WorkSpec()
    status: WorkStatus | None = None


class Works(StoredCollection[Work]):
    finish = part("finish", fields=["spec.finalizers"], shared=True, verbs=["update"])

    def mark_deleted(self, new: Work, ctx: Context) -> None:
        new.status = WorkStatus(phase="Ending")


class Question(Resource, group=GROUP, version="v1", name_rule="none", scope="Cluster"):
    """A question."""

    text: str = ""
    answer: str = ""


class Questions(VirtualCollection[Question]):
    async def create(self, new: Question, ctx: Context) -> Question:
        new.answer = f"{new.text}, {ctx.user.name}?"
        return new


WORKS = f"/apis/{GROUP}/v1/namespaces/default/works"


def server() -> APIServer:
    return APIServer(serve=[Works, Questions])


async def put(api: InMemory, spec: dict[str, Any]) -> dict[str, Any]:
    made = await api.post(WORKS, {"metadata": {"name": "a"}, "spec": spec})
    assert made.status == 201, made
    tree: dict[str, Any] = made.json
    return tree


@pytest.mark.anyio
async def test_a_list_elsewhere_keeps_a_deleted_object() -> None:
    async with InMemory(server()) as api:
        await put(api, {"finalizers": ["x"]})
        deleted = (await api.request("DELETE", f"{WORKS}/a")).json
        assert (deleted["kind"], deleted["status"]["phase"]) == ("Work", "Ending")
        assert "deletionGracePeriodSeconds" not in deleted["metadata"]
        again = (await api.request("DELETE", f"{WORKS}/a")).json
        assert again["metadata"]["resourceVersion"] == deleted["metadata"]["resourceVersion"]
        body = {"metadata": {"name": "a"}, "spec": {"finalizers": []}}
        body["metadata"]["resourceVersion"] = deleted["metadata"]["resourceVersion"]
        assert (await api.request("PUT", f"{WORKS}/a/finish", body)).status == 200
        assert (await api.get(f"{WORKS}/a")).status == 404


@pytest.mark.anyio
async def test_without_such_a_list_it_goes_at_once() -> None:
    async with InMemory(server()) as api:
        await put(api, {})
        assert (await api.request("DELETE", f"{WORKS}/a")).json["status"] == "Success"


@pytest.mark.anyio
async def test_a_part_has_the_verbs_that_are_named() -> None:
    async with InMemory(server()) as api:
        await put(api, {"finalizers": ["x"]})
        assert (await api.get(f"{WORKS}/a/finish")).status == 405
        listed = (await api.get(f"/apis/{GROUP}/v1")).json["resources"]
        assert [one["verbs"] for one in listed if one["name"] == "works/finish"] == [["update"]]


@pytest.mark.anyio
async def test_not_all_at_once() -> None:
    async with InMemory(server()) as api:
        assert (await api.request("DELETE", WORKS)).status == 405


@pytest.mark.anyio
async def test_an_empty_list_may_be_null() -> None:
    async with InMemory(server()) as api:
        assert (await put(api, {"names": []}))["spec"]["names"] is None
    assert wire(Work())["spec"]["names"] is None


@pytest.mark.anyio
async def test_a_micro_time_has_six_digits() -> None:
    async with InMemory(server()) as api:
        assert (await put(api, {"until": "2026-01-01T00:00:00.123456Z"}))["spec"]["until"][-8:] == ".123456Z"
        refused = await api.post(WORKS, {"metadata": {"name": "b"}, "spec": {"until": "2026-01-01T00:00:00Z"}})
        assert (refused.status, "000000Z" in refused.json["message"]) == (400, True)
    moment = datetime(2026, 1, 1, 1, 2, 3, tzinfo=UTC)
    assert wire(Work(spec=WorkSpec(until=moment)))["spec"]["until"] == "2026-01-01T01:02:03.000000Z"


@pytest.mark.anyio
async def test_cells_are_computed() -> None:
    async with InMemory(server()) as api:
        await put(api, {"names": ["x", "y"]})
        table = (await api.request("GET", WORKS, headers=TABLE)).json
        assert [one["name"] for one in table["columnDefinitions"]] == ["Names", "Name", "Old"]
        assert [one["type"] for one in table["columnDefinitions"]] == ["string", "string", "string"]
        assert table["rows"][0]["cells"] == [2, "a", "0s"]


@pytest.mark.anyio
async def test_a_question_is_answered_and_not_kept() -> None:
    async with InMemory(server()) as api:
        path = f"/apis/{GROUP}/v1/questions"
        for query in ("", "?dryRun=All"):
            answer = await api.post(path + query, {"metadata": {"name": "x"}, "text": "who"})
            assert (answer.status, answer.json["metadata"], answer.json["answer"]) == (201, {}, "who, admin?")
        assert ((await api.get(path)).status, (await api.get(f"{path}/x")).status) == (405, 404)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (Column("X", expression="self.spec.nme"), "undefined field 'nme'"),
        (Column("X", ".spec", expression="1"), "has a json_path and an expression"),
    ],
)
def test_a_wrong_expression_fails_before_it_is_served(column: Column, text: str) -> None:
    class Bad(Resource, group=GROUP, version="v1", columns=[column]):
        spec: WorkSpec = WorkSpec()

    with pytest.raises(DeclarationError, match=text):
        APIServer(serve=[Bad])
