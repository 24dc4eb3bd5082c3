"""The largest and smallest values in every number, quantity and time of every kind: refused or kept, never a 500.

The fields are those of the server's own OpenAPI documents, so that a new kind is tried too.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from minimal_objects import MINIMAL

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory, VirtualClock

Tree = dict[str, Any]
Path = tuple[str | int, ...]

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
MERGE = {"content-type": "application/merge-patch+json"}
NUMBERS: list[Any] = [2**63 - 1, -(2**63), 2**31 - 1]
TEXTS: dict[str, list[Any]] = {
    "date-time": ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"],
    "micro": ["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"],
    "either": [2**31 - 1, -(2**31), "9" * 5000 + "%", "-1%", "9" * 5000],
    "quantity": [
        2**63 - 1,
        -(2**63),
        "1e9999999999999999999",
        "1e1000",
        "1e-1000",
        "9" * 900,
        "-9223372036854775808Ei",
    ],
}
TEMPLATED = ("template", "jobTemplate", "podTemplate")
"""What is in them is tried in the kind that they are of."""
DEEPEST = 9


class Fields:
    """The fields of a document that hold numbers, quantities and times."""

    def __init__(self, schemas: Tree) -> None:
        self._schemas = schemas

    def of(self, schema: Tree, path: Path = (), inside: tuple[str, ...] = ()) -> Iterator[tuple[Path, Any]]:
        """Each field with each of its values. A type isn't entered inside of itself."""
        if len(path) > DEEPEST:
            return
        for part in schema.get("allOf", ()):
            yield from self.of(part, path, inside)
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in inside:
                named = self._schemas[name]
                if name.endswith("Quantity"):
                    named = {"quantity": True}
                yield from self.of(named, path, (*inside, name))
            return
        for value in _values(schema):
            yield path, value
        for name, child in schema.get("properties", {}).items():
            if name not in TEMPLATED and (path or name not in ("metadata", "apiVersion", "kind")):
                yield from self.of(child, (*path, name), inside)
        if "items" in schema:
            yield from self.of(schema["items"], (*path, 0), inside)
        if isinstance(schema.get("additionalProperties"), dict):
            yield from self.of(schema["additionalProperties"], (*path, "cpu"), inside)


def _values(schema: Tree) -> list[Any]:
    if schema.get("quantity") or "[eEinumkKMGTP]" in schema.get("pattern", ""):
        return TEXTS["quantity"]
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return TEXTS["either"]
    if schema.get("type") == "integer":
        return NUMBERS
    if schema.get("format") == "date-time":
        return TEXTS["date-time"] + TEXTS["micro"]
    return []


def changed(tree: Tree, path: Path, value: Any) -> Tree:
    made = here = copy.deepcopy(tree)
    for step, following in itertools.pairwise(path):
        empty: Any = [] if following == 0 else {}
        if isinstance(here, list):
            here[:] = here or [empty]
            here = here[0]
        else:
            here = here.setdefault(str(step), empty)
            if isinstance(here, list) and following != 0:
                return made
    if isinstance(here, list):
        here[:] = [value]
    elif isinstance(here, dict):
        here[str(path[-1])] = value
    return made


async def kinds(api: InMemory) -> list[tuple[str, str, Tree, Tree]]:
    """Every collection that objects are created in: its path, plural and schema, and the schemas of its document."""
    found = []
    for root in sorted((await api.get("/openapi/v3")).json["paths"]):
        if root.count("/") == 0 or root.endswith(("apis/v1",)):
            continue
        document = (await api.get(f"/openapi/v3/{root}")).json
        for path, operations in document.get("paths", {}).items():
            if "post" not in operations or path.rpartition("/")[2].startswith("{") or "{name}" in path:
                continue
            content = operations["post"].get("requestBody", {}).get("content", {})
            schema = next(iter(content.values()), {}).get("schema")
            if schema:
                found.append((path, path.rpartition("/")[2], schema, document["components"]["schemas"]))
    return found


@pytest.mark.anyio
@pytest.mark.slow
async def test_no_value_of_any_field_is_too_extreme_for_the_server(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        tried = kept = 0
        for path, plural, schema, schemas in await kinds(api):
            where = path.replace("{namespace}", "default")
            group = path.split("/")[2] if path.startswith("/apis/") else ""
            smallest = MINIMAL.get((group, plural), {})
            for place, value in Fields(schemas).of(schema):
                tried += 1
                name = f"x{tried}"
                tree = {"metadata": {"name": name}, **changed(smallest, place, value)}
                told = (where, place, str(value)[:40])
                made = await api.post(where, tree)
                assert made.status < 500, (told, made)
                if made.status != 201 or made.json.get("metadata", {}).get("name") != name:
                    continue
                kept += 1
                if place[0] == "status":
                    status = await api.request("PATCH", f"{where}/{name}/status", tree, MERGE)
                    assert status.status < 500, (told, status)
                table = await api.request("GET", f"{where}/{name}", headers=TABLE)
                assert table.status == 200, (told, table)
                deleted = await api.delete(f"{where}/{name}?gracePeriodSeconds=9223372036854775807")
                assert deleted.status < 500, (told, deleted)
                if kept % 100 == 0:
                    await clock.run(1)  # controllers look at what there is
        await clock.run(60)
        assert tried > 1000
        assert kept > 100
    assert not [record for record in caplog.records if record.exc_info], "nothing was logged with a traceback"
