"""A class has changed since an object was stored: nobody is blamed for it, and whoever can may mend it."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator
from typing import Annotated, Any, Self

import pydantic
import pytest
from apply_kit import APPLY
from walk_kit import causes, failure, key, walk

from oarlock import (
    Admission,
    APIServer,
    Context,
    FieldError,
    Foreign,
    Informer,
    Invalid,
    MinLength,
    Model,
    ObjectMeta,
    Resource,
    Review,
    Rule,
    Spoke,
    StoredCollection,
    dataclass_shape,
    pydantic_shape,
    subresource,
)
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

GROUP = "walk.example.com"


class Engine(Model):
    """Came later, and so did its power."""

    power: int


class BargeSpec(Model):
    """`owner` and `engine` were added, `load` was a text, `flags` were numbers."""

    owner: str
    engine: Engine
    load: int = 3
    name: str = ""
    flags: list[str] = []


class Barge(Resource, group=GROUP, version="v1"):
    spec: BargeSpec


class OldBargeSpec(Model):
    holder: str


class OldBarge(Spoke[Barge], version="v1alpha1"):
    """What barges are stored as in `Stored`; its holder was a number once."""

    spec: OldBargeSpec

    def to_hub(self) -> Barge:
        if self.spec.holder == "nobody":
            raise KeyError("nobody")
        return Barge(metadata=self.metadata, spec=BargeSpec(owner=self.spec.holder, engine=Engine(power=1)))

    @classmethod
    def from_hub(cls, hub: Barge) -> Self:
        return cls(metadata=hub.metadata, spec=OldBargeSpec(holder=hub.spec.owner))


SEEN: list[Any] = []


class Barges(StoredCollection[Barge]):
    def prepare(self, new: Barge, old: Barge | None, ctx: Context) -> None:
        SEEN.append(old)

    def validate(self, new: Barge, old: Barge | None, ctx: Context) -> Iterator[FieldError]:
        if old is not None and old.spec.load > new.spec.load:
            yield Invalid("spec.load", new.spec.load, "a barge isn't unloaded")
        if old is not None and old.spec.engine.power > new.spec.engine.power:
            yield Invalid("spec.engine.power", new.spec.engine.power, "engines get stronger")

    @subresource("horn", method="GET")
    async def horn(self, name: str, parent: Barge, ctx: Context) -> Barge:
        return Barge(
            metadata=ObjectMeta(name=name), spec=BargeSpec(owner=f"<{parent.spec.owner}>", engine=Engine(power=1))
        )


class Stored(StoredCollection[Barge], stored_as=OldBarge, loses=["spec"]):
    prepare = Barges.prepare
    validate = Barges.validate


class Dock(Resource, group=GROUP, version="v1"):
    """Another kind, which the informer of barges is read for."""

    depth: int = 1


class Watchman(Admission[Barge], operations=["CREATE", "UPDATE", "DELETE"]):
    waits = False

    def __init__(self) -> None:
        self.old: list[Barge | None] = []

    async def mutate(self, review: Review[Barge]) -> None:
        self.old.append(review.old_object)

    async def validate(self, review: Review[Barge]) -> None:
        self.old.append(review.old_object)


class Harbour(Admission[Dock]):
    waits = False

    def __init__(self, barges: Informer[Barge]) -> None:
        self.barges = barges

    async def validate(self, review: Review[Dock]) -> None:
        assert all(barge.spec.owner for barge in self.barges)


BARGES = f"/apis/{GROUP}/v1/namespaces/default/barges"
OLD_BARGES = BARGES.replace("/v1/", "/v1alpha1/")
FIRST = "2"
WRONG = {"name": "Anna", "load": "heavy", "flags": ["a", 5]}
RIGHT = {"owner": "me", "engine": {"power": 4}, "load": 7}


def barge(spec: dict[str, Any], name: str = "a", version: str = "v1") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": "2020-01-01T00:00:00Z"}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Barge", "metadata": metadata, "spec": spec}


def whole(spec: dict[str, Any]) -> dict[str, Any]:
    """What replaces the barge that was there from the start."""
    made = barge(spec)
    made["metadata"]["resourceVersion"] = FIRST
    return made


async def harbour(spec: dict[str, Any], serve: list[Any], stored: str = "v1", **settings: Any) -> InMemory:
    """A server whose store has one barge, written when its class was another."""
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    value = json.dumps(barge(spec, version=stored)).encode()
    await backend.start()
    written = await backend.put(key("barges", "default", "a"), value, expect=0)
    assert str(written.rev) == FIRST
    SEEN.clear()
    return InMemory(APIServer(serve=serve, **settings), backend=backend, clock=clock)


@walk
async def test_hooks_see_what_can_be_read_of_it(caplog: pytest.LogCaptureFixture) -> None:
    watchman = Watchman()
    async with await harbour(WRONG, [Barges], admission=[watchman]) as api:
        assert (await api.get(BARGES + "/a")).json["spec"] == WRONG
        answer = await api.put(BARGES + "/a", whole(RIGHT))
        assert answer.status == 200, answer.json
    for old in (SEEN[0], *watchman.old):
        assert (old.metadata.name, old.spec.name) == ("a", "Anna")
        assert (old.spec.owner, old.spec.engine.power, old.spec.load, old.spec.flags[0]) == ("", 0, 3, "a")
    lines = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and r.name == "oarlock.registry"]
    assert (
        len([line for line in lines if "walk.example.com/v1 Barge default/a" in line]) == 2
    )  # the collection, and the plugin
    assert "spec.owner: Required value" in lines[0]


@walk
@pytest.mark.parametrize("how", ["merge", "json", "apply", "replace"])
async def test_a_write_that_mends_it_is_taken(how: str) -> None:
    async with await harbour(WRONG, [Barges]) as api:
        if how == "merge":
            answer = await api.patch(BARGES + "/a", {"spec": {**RIGHT, "flags": None}})
        elif how == "json":
            patch = [{"op": "replace", "path": "/spec", "value": RIGHT}]
            answer = await api.patch(BARGES + "/a", patch, "application/json-patch+json")
        elif how == "apply":
            applied = {**barge({**RIGHT, "flags": ["a"]}), "metadata": {"name": "a"}}
            answer = await api.patch(BARGES + "/a?fieldManager=me&force=true", applied, APPLY)
        else:
            answer = await api.put(BARGES + "/a", whole(RIGHT))
        assert answer.status == 200, answer.json
        assert answer.json["spec"]["engine"] == {"power": 4}
        again = await api.patch(BARGES + "/a", {"spec": {"load": 6}})
        assert causes(again) == ["spec.load"]
        assert SEEN[-1].spec.load == 7


@walk
async def test_one_that_does_not_mend_it_is_told_of_its_own_mistakes_only() -> None:
    async with await harbour(WRONG, [Barges]) as api:
        answer = await api.patch(BARGES + "/a", {"spec": {"name": "Berta", "load": 4, "flags": []}})
        assert failure(answer)[0:2] == (422, "Invalid")
        assert causes(answer) == ["spec.owner", "spec.engine"] * 2
        blamed = answer.json["details"]["causes"][2:]
        assert {one["reason"] for one in blamed} == {"StoredObjectInvalid"}
        assert answer.json["message"].endswith(
            "; in the stored object spec.owner, spec.engine is so already: set it in the same request, or leave all of "
            "spec as it is"
        )
        assert (await api.patch(BARGES + "/a", {"spec": {**RIGHT, "load": 2, "flags": []}})).status == 422
        assert (await api.get(BARGES + "/a")).json["spec"] == WRONG


@walk
async def test_it_can_be_deleted_and_its_subresources_asked() -> None:
    watchman = Watchman()
    async with await harbour(WRONG, [Barges], admission=[watchman]) as api:
        assert (await api.get(BARGES + "/a/horn")).json["spec"]["owner"] == "<>"
        assert (await api.delete(BARGES + "/a")).status == 200
    assert [old.spec.name for old in watchman.old if old is not None] == ["Anna", "Anna"]


@walk
async def test_informers_leave_it_out_and_name_it_once(caplog: pytest.LogCaptureFixture) -> None:
    barges = Informer(Barge)
    async with await harbour(WRONG, [Barges, Dock], informers=[barges], admission=[Harbour(barges)]) as api:
        docks = f"/apis/{GROUP}/v1/namespaces/default/docks"
        for name in ("x", "y", "z"):
            assert (await api.post(docks, {"metadata": {"name": name}})).status == 201
        assert barges.get("a", "default") is None
        told = [r.getMessage() for r in caplog.records if "informer" in r.getMessage()]
        assert len(told) == 1
        assert "Barge default/a" in told[0]
        assert "spec.owner: Required value" in told[0]
        await api.put(BARGES + "/a", whole(RIGHT))
        assert [one.spec.load for one in barges] == [7]


@walk
async def test_stored_in_another_version_it_can_be_replaced_and_deleted_in_the_hub() -> None:
    watchman = Watchman()
    spec = {"holder": 5}
    async with await harbour(spec, [Stored], stored="v1alpha1", admission=[watchman]) as api:
        assert (await api.get(OLD_BARGES + "/a")).json["spec"] == spec
        assert (await api.put(BARGES + "/a?dryRun=All", whole(RIGHT))).status == 200
        assert (await api.patch(OLD_BARGES + "/a?dryRun=All", {"spec": {"holder": "you"}})).status == 200
        assert [old.spec.owner for old in (*SEEN, *watchman.old) if old is not None] == [""] * 6
        assert (await api.delete(BARGES + "/a")).status == 200
    assert [old.spec.owner for old in watchman.old if old is not None] == [""] * 6


class Strict(
    Resource, group=GROUP, version="v1", status_subresource=True, rules=[Rule("self.fixed == oldSelf.fixed", "stays")]
):
    """Its name may not be empty, nor change."""

    name: Annotated[str, MinLength(1)]
    fixed: str = "x"
    status: Engine | None = None


class OldStrict(Spoke[Strict], version="v1alpha1", status_subresource=True):
    name: str
    status: Engine | None = None

    def to_hub(self) -> Strict:
        return Strict(metadata=self.metadata, name=self.name or "a", status=self.status)

    @classmethod
    def from_hub(cls, hub: Strict) -> Self:
        return cls(metadata=hub.metadata, name=hub.name, status=hub.status)


class Stricts(StoredCollection[Strict], stored_as=OldStrict, loses=["fixed"]):
    pass


@walk
async def test_nothing_made_up_of_it_is_kept_or_counts_as_unchanged() -> None:
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    stored = {**barge({}, version="v1alpha1"), "kind": "Strict", "name": 5, "status": {"power": "strong"}}
    await backend.start()
    await backend.put(key("stricts", "default", "a"), json.dumps(stored).encode(), expect=0)
    where = BARGES.replace("barges", "stricts") + "/a"
    async with InMemory(APIServer(serve=[Stricts]), backend=backend, clock=clock) as api:
        mended = {**whole({}), "kind": "Strict", "name": "", "status": {"power": 7}}
        assert causes(await api.put(where, mended)) == ["name"]
        refused = await api.put(where + "/status", {**mended, "name": "a"})
        assert (refused.status, refused.json["reason"]) == (500, "InternalError")
        assert "Strict default/a to v1 failed" in refused.json["message"]
        answer = await api.put(where, {**mended, "name": "b", "fixed": "y"})
        assert answer.status == 200, answer.json
        assert (answer.json["name"], answer.json.get("status")) == ("b", None)


@walk
async def test_of_what_cannot_be_converted_hooks_see_the_metadata() -> None:
    async with await harbour({"holder": "nobody"}, [Stored], stored="v1alpha1") as api:
        answer = await api.put(BARGES + "/a", whole(RIGHT))
        assert answer.status == 200, answer.json
    assert (SEEN[0].metadata.uid, SEEN[0].spec.owner, SEEN[0].spec.load) == ("uid-a", "", 3)


class PydanticSpec(pydantic.BaseModel):
    owner: str
    load: int = 3
    size: int = pydantic.Field(gt=0)


class PydanticBarge(pydantic.BaseModel):
    metadata: dict[str, Any] = {}
    spec: PydanticSpec


@dataclasses.dataclass
class DataSpec:
    owner: str
    load: int = 3


@dataclasses.dataclass
class DataBarge:
    spec: DataSpec


FACTS: dict[str, Any] = {"group": GROUP, "version": "v1", "kind": "Barge"}


class Pydantic(StoredCollection[PydanticBarge], of=Foreign(pydantic_shape(PydanticBarge), **FACTS)):
    def validate(self, new: PydanticBarge, old: PydanticBarge | None, ctx: Context) -> Iterator[FieldError]:
        SEEN.append(old)
        yield from ()


class Data(StoredCollection[DataBarge], of=Foreign(dataclass_shape(DataBarge), **FACTS)):
    def validate(self, new: DataBarge, old: DataBarge | None, ctx: Context) -> Iterator[FieldError]:
        SEEN.append(old)
        yield from ()


@walk
async def test_of_somebody_elses_types_too() -> None:
    for collection in (Pydantic, Data):
        async with await harbour({"load": "heavy", "size": 4}, [collection]) as api:
            answer = await api.put(BARGES + "/a", whole({"owner": "me", "size": 2}))
            assert answer.status == 200, answer.json
            assert (SEEN[0].spec.owner, SEEN[0].spec.load) == ("", 3)
            refused = await api.put(BARGES + "/a", whole({"owner": 5, "size": 2}))
            assert "spec.owner" in refused.json["message"]


@walk
async def test_a_type_that_takes_no_such_value_is_shown_as_if_there_had_been_none() -> None:
    async with await harbour({"owner": "me", "size": -4}, [Pydantic]) as api:
        assert (await api.put(BARGES + "/a", whole({"owner": "me", "size": 2}))).status == 200
    assert SEEN == [None]
