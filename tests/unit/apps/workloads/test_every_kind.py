"""Every workload kind is created, read, patched, given a status and deleted, and is shown as a Table."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from minimal_objects import MINIMAL, NAMES

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.kinds.serving import KINDS
from oarlock.testing import InMemory

STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PLURALS = sorted({(facts.group, facts.plural) for facts in KINDS})


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def api(anyio_backend: str) -> AsyncIterator[InMemory]:
    async with InMemory(ControlPlane()) as server:
        yield server


def collection(group: str, plural: str) -> str:
    facts = next(one for one in KINDS if (one.group, one.plural) == (group, plural))
    root = f"/apis/{group}/{facts.version}" if group else f"/api/{facts.version}"
    return f"{root}/namespaces/default/{plural}" if facts.namespaced else f"{root}/{plural}"


def test_there_is_a_smallest_object_of_every_kind() -> None:
    assert sorted(MINIMAL) == PLURALS


@pytest.mark.anyio
@pytest.mark.parametrize(("group", "plural"), PLURALS)
async def test_a_kind_round_trips(api: InMemory, group: str, plural: str) -> None:
    name, path = NAMES.get((group, plural), "a"), collection(group, plural)
    made = await api.post(path, {"metadata": {"name": name}, **MINIMAL[group, plural]})
    assert made.status == 201, made.json
    assert (await api.get(f"{path}/{name}")).json == made.json
    patch: Any = {"metadata": {"labels": {"patched": "yes"}}}
    patched = await api.request("PATCH", f"{path}/{name}", patch, headers=STRATEGIC)
    assert patched.status == 200, patched.json
    assert patched.json["metadata"]["labels"]["patched"] == "yes"
    again = await api.request("PUT", f"{path}/{name}", patched.json)
    assert (again.status, again.json) == (200, patched.json)
    table = (await api.request("GET", path, headers=TABLE)).json
    (row,) = [one["cells"] for one in table["rows"] if one["cells"][0] == name]
    assert len(row) == len(table["columnDefinitions"])
    facts = next(one for one in KINDS if (one.group, one.plural) == (group, plural))
    if facts.status:
        told = await api.request("PATCH", f"{path}/{name}/status", {"status": {}}, headers=STRATEGIC)
        assert told.status == 200, told.json
    deleted = await api.request("DELETE", f"{path}/{name}?propagationPolicy=Background")
    assert deleted.status == 200, deleted.json
    held = bool(made.json["metadata"].get("finalizers"))
    assert deleted.json["kind"] == ("Status" if facts.delete_returns == "status" and not held else facts.kind)
    if held:
        await api.clock.run(2)  # type: ignore[attr-defined]
    assert (await api.get(f"{path}/{name}")).status == 404


@pytest.mark.anyio
@pytest.mark.parametrize(("group", "plural"), PLURALS)
async def test_a_kind_refuses_what_it_does_not_know(api: InMemory, group: str, plural: str) -> None:
    path = f"{collection(group, plural)}?fieldValidation=Strict"
    name = NAMES.get((group, plural), "a")
    unknown = await api.post(path, {"metadata": {"name": name}, **MINIMAL[group, plural], "sepc": 1})
    assert unknown.status == 400
    assert 'unknown field "sepc"' in unknown.json["message"]
    wrong = await api.post(path, {"metadata": {"name": name}, "spec": 5, "template": [], "subsets": 1, "value": "x"})
    assert wrong.status in (400, 422), json.dumps(wrong.json)
