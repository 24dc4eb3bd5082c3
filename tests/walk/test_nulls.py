"""Null in a body: absent for declared types, whatever the type of the field."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import pytest
from walk_kit import walk

from oarlock import JSON, APIServer, IntOrString, Model, Nullable, Quantity, Resource
from oarlock.testing.server import InMemory

CUPS = "/apis/nulls.example.com/v1/namespaces/default/cups"


class Part(Model):
    """A part of a cup."""

    name: str = ""


class CupSpec(Model):
    """A field of every kind."""

    text: str | None = None
    whole: int | None = None
    share: float | None = None
    flag: bool | None = None
    data: bytes | None = None
    when: datetime | None = None
    amount: Quantity | None = None
    port: IntOrString | None = None
    part: Part | None = None
    parts: list[Part] | None = None
    named: dict[str, Part] | None = None
    size: int = 7
    lid: IntOrString = 80
    room: Quantity = "1"
    maybe: Annotated[str, Nullable] | None = None
    free: JSON = None


class Cup(Resource, group="nulls.example.com", version="v1"):
    """A cup."""

    spec: CupSpec = CupSpec()


OPTIONAL = ["text", "whole", "share", "flag", "data", "when", "amount", "port", "part", "parts", "named"]
DEFAULTS: dict[str, Any] = {"size": 7, "lid": 80, "room": "1"}


@pytest.mark.parametrize("form", ["application/json", "application/yaml", "application/merge-patch+json"])
def test_null_is_absent(form: str) -> None:
    @walk
    async def check() -> None:
        async with InMemory(APIServer(serve=[Cup])) as api:
            for name in [*OPTIONAL, *DEFAULTS]:
                if form.startswith("application/merge"):
                    assert (await api.post(CUPS, {"metadata": {"name": name}})).status == 201
                    answer = await api.patch(f"{CUPS}/{name}", {"spec": {name: None}}, form)
                else:
                    answer = await api.post(CUPS, {"metadata": {"name": name}, "spec": {name: None}}, content_type=form)
                assert answer.status in (200, 201), (name, answer)
                spec = answer.json["spec"]
                assert name not in spec if name in OPTIONAL else spec[name] == DEFAULTS[name]

    check()


@walk
async def test_null_that_is_a_value_stays() -> None:
    async with InMemory(APIServer(serve=[Cup])) as api:
        answer = await api.post(CUPS, {"metadata": {"name": "a"}, "spec": {"maybe": None, "free": None}})
        assert {"maybe": None, "free": None}.items() <= answer.json["spec"].items()


@walk
async def test_null_in_a_list_or_map_is_the_zero_value() -> None:
    async with InMemory(APIServer(serve=[Cup])) as api:
        spec = {"parts": [None, {"name": "b"}], "named": {"a": None}}
        answer = await api.post(CUPS, {"metadata": {"name": "a"}, "spec": spec})
        assert answer.json["spec"]["parts"] == [{"name": ""}, {"name": "b"}]
        assert answer.json["spec"]["named"] == {"a": {"name": ""}}
