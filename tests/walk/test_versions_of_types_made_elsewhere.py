"""Types made elsewhere have what a Model has: several versions, a status, hooks with typed objects, defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import attrs
import pydantic
import pytest

from oarlock import (
    APIServer,
    Context,
    DeclarationError,
    FieldError,
    Foreign,
    Invalid,
    StoredCollection,
    dataclass_shape,
    pydantic_shape,
)
from oarlock.testing import InMemory

GROUP = "stock.example.com"


@dataclasses.dataclass
class DataSpec:
    cups: int
    label: str = ""


@dataclasses.dataclass
class DataStatus:
    counted: int = 0


@dataclasses.dataclass
class DataStock:
    """What is there."""

    spec: DataSpec
    status: DataStatus | None = None


@dataclasses.dataclass
class OldDataStock:
    cups: int
    label: str = ""
    status: DataStatus | None = None


@attrs.define
class AttrsSpec:
    cups: int = attrs.field(validator=attrs.validators.ge(0))
    label: str = attrs.field(default="", converter=str.strip)
    _tags: list[str] = attrs.field(factory=list)


@attrs.define
class AttrsStatus:
    counted: int = 0


@attrs.define
class AttrsStock:
    """What is there."""

    spec: AttrsSpec
    status: AttrsStatus | None = None


@attrs.define
class OldAttrsStock:
    cups: int
    label: str = ""
    status: AttrsStatus | None = None


class PydanticSpec(pydantic.BaseModel):
    cups: int
    label: str = ""


class PydanticStatus(pydantic.BaseModel):
    counted: int = 0


class PydanticStock(pydantic.BaseModel):
    """What is there."""

    spec: PydanticSpec
    status: PydanticStatus | None = None


class OldPydanticStock(pydantic.BaseModel):
    cups: int
    label: str = ""
    status: PydanticStatus | None = None


LIBRARIES: dict[str, tuple[Any, Any, Any, Any]] = {
    "dataclasses": (dataclass_shape, DataStock, DataSpec, OldDataStock),
    "attrs": (dataclass_shape, AttrsStock, AttrsSpec, OldAttrsStock),
    "pydantic": (pydantic_shape, PydanticStock, PydanticSpec, OldPydanticStock),
}


def served(library: str) -> list[Any]:
    shape, stock, spec, old_stock = LIBRARIES[library]

    def name_it(new: Any) -> None:
        new.spec.label = new.spec.label or f"{new.spec.cups} cups"

    def name_old(new: Any) -> None:
        new.label = new.label or f"{new.cups} cups"

    hub = Foreign(
        shape(stock), group=GROUP, version="v2", kind="Stock", plural="stocks", default=name_it, status_subresource=True
    )
    old = hub.spoke(
        shape(old_stock),
        version="v1",
        deprecated=True,
        status_subresource=True,
        default=name_old,
        to_hub=lambda one: stock(spec=spec(cups=one.cups, label=one.label), status=one.status),
        from_hub=lambda one: old_stock(cups=one.spec.cups, label=one.spec.label, status=one.status),
    )

    class Stocks(StoredCollection[stock], of=hub):
        def prepare(self, new: Any, old: Any, ctx: Context) -> None:
            assert type(new) is stock
            assert old is None or type(old) is stock

        def validate(self, new: Any, old: Any, ctx: Context) -> Iterable[FieldError]:
            if old is not None and new.spec.cups < old.spec.cups:
                yield Invalid("spec.cups", new.spec.cups, "cups don't get lost")

    return [Stocks, old]


def path(version: str) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/stocks"


def tree(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Stock", "metadata": {"name": "a"}, **fields}


libraries = pytest.mark.parametrize("library", LIBRARIES)


@pytest.mark.anyio
@libraries
async def test_an_object_is_shown_in_every_version_and_written_in_each(library: str):
    async with InMemory(APIServer(serve=served(library))) as api:
        made = await api.post(path("v1"), tree("v1", cups=3))
        assert made.status == 201, made.body
        assert made.warnings == [f"{GROUP}/v1 Stock is deprecated; use {GROUP}/v2 Stock"]
        assert (made.json["cups"], made.json["label"]) == (3, "3 cups")
        newer = await api.get(f"{path('v2')}/a")
        assert newer.json["spec"]["cups"] == 3
        patched = await api.patch(f"{path('v1')}/a", {"cups": 5, "label": "five"})
        assert patched.status == 200, patched.body
        newer = await api.get(f"{path('v2')}/a")
        assert (newer.json["spec"]["cups"], newer.json["spec"]["label"]) == (5, "five")
        refused = await api.patch(f"{path('v1')}/a", {"cups": 4})
        assert (refused.status, "cups don't get lost" in refused.json["message"]) == (422, True)


@pytest.mark.anyio
@libraries
async def test_the_status_is_written_by_its_path_alone(library: str):
    async with InMemory(APIServer(serve=served(library))) as api:
        await api.post(path("v2"), tree("v2", spec={"cups": 1}, status={"counted": 9}))
        before = (await api.get(f"{path('v2')}/a")).json
        assert "status" not in before
        assert before["spec"]["label"] == "1 cups"
        done = await api.patch(f"{path('v2')}/a/status", {"status": {"counted": 1}, "spec": {"cups": 7}})
        assert (done.json["status"], done.json["spec"]["cups"]) == ({"counted": 1}, 1)
        assert (await api.get(f"{path('v1')}/a")).json["status"] == {"counted": 1}


@pytest.mark.anyio
async def test_validators_converters_and_private_fields_of_attrs():
    async with InMemory(APIServer(serve=served("attrs"))) as api:
        made = await api.post(path("v2"), tree("v2", spec={"cups": 1, "label": " a ", "tags": ["x"]}))
        assert made.status == 201, made.body
        assert made.json["spec"] == {"cups": 1, "label": "a", "tags": ["x"]}
        refused = await api.post(path("v2"), tree("v2", spec={"cups": -1}))
        assert refused.status == 422
        assert "must be >= 0" in refused.json["message"]


def test_mistakes_in_a_spoke_are_told():
    hub = Foreign(dataclass_shape(DataStock), group=GROUP, version="v2", kind="Stock")
    ways: Any = {"to_hub": lambda one: one, "from_hub": lambda one: one}
    with pytest.raises(DeclarationError, match="a spoke has its hub's"):
        hub.spoke(dataclass_shape(OldDataStock), version="v1", plural="stocks", **ways)
    old = hub.spoke(dataclass_shape(OldDataStock), version="v1", **ways)
    with pytest.raises(DeclarationError, match="a spoke of a spoke"):
        old.spoke(dataclass_shape(OldDataStock), version="v0", **ways)
