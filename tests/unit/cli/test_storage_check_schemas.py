"""``oarlock storage check --schemas``: which stored objects today's classes refuse."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from oarlock.cli import progress
from oarlock.cli.loading import load_server
from oarlock.registry.stored.records import DefinitionRecords
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock

STRICT = '''\
from __future__ import annotations

from typing import Annotated, Literal

from oarlock import APIServer, Ge, Model, Resource, Rule, Spoke, StoredCollection


class Spec(Model):
    """What is wanted."""

    owner: str
    size: Annotated[int, Ge(1)] = 1
    colour: Literal["red", "blue"] = "red"


class Thing(
    Resource,
    group="test.example.com",
    version="v1",
    rules=[Rule("self.spec.size != 13", "thirteen brings bad luck")],
):
    """A thing."""

    spec: Spec


class OldThing(Spoke[Thing], version="v1alpha1"):
    """A thing, before."""

    spec: Spec

    def to_hub(self) -> Thing:
        return Thing(metadata=self.metadata, spec=self.spec)

    @classmethod
    def from_hub(cls, hub: Thing) -> OldThing:
        if hub.spec.owner == "nobody":
            raise KeyError("nobody")
        return cls(metadata=hub.metadata, spec=hub.spec)


class Other(Resource, group="test.example.com", version="v1", scope="Cluster"):
    """Another thing."""

    spec: Spec | None = None


server = APIServer(serve=[Thing, OldThing, Other], name="things")
'''
THINGS = "/registry/test.example.com/things/default/"
CHECK = ("storage", "check", "--schemas", "things.py", "--storage", "sqlite:///store.db")


def thing(name: str, spec: Any, **metadata: Any) -> bytes:
    tree = {
        "apiVersion": "test.example.com/v1",
        "kind": "Thing",
        "metadata": {
            "name": name, "namespace": "default", "uid": f"u-{name}", "creationTimestamp": "2020-01-01T00:00:00Z",
            **metadata,
        },
        "spec": spec,
    }  # fmt: skip
    return json.dumps(tree).encode()


def in_the_store(folder: Path, values: dict[str, bytes]) -> None:
    async def main() -> None:
        backend = SqliteBackend(folder / "store.db", VirtualClock())
        await backend.start()
        await asyncio.gather(*(backend.put(THINGS + key, value, expect=0) for key, value in values.items()))
        await backend.close()

    asyncio.run(main())


def test_each_object_that_does_not_fit_is_a_line_with_fields_and_reasons(folder: Path, oarlock: Any) -> None:
    (folder / "things.py").write_text(STRICT)
    in_the_store(
        folder,
        {
            "bad-luck": thing("bad-luck", {"owner": "me", "size": 13}),
            "fine": thing("fine", {"owner": "me"}),
            "many": thing("many", {"owner": "me", "size": -1, "colour": "green"}),
            "no-json": b"{",
            "nobody": thing("nobody", {"owner": "nobody"}),
            "older": thing("older", {"size": 5}),
            "text": thing("text", {"owner": "me", "size": "big\nand\x1b[31m red"}),
            "unnamed": thing("Not A Name", {"owner": "me"}),
        },
    )
    done = oarlock(*CHECK)
    assert done.returncode == 1
    start = "things.test.example.com default/"
    lines = done.stdout.splitlines()
    assert [line.removeprefix(start).partition(": ")[0] for line in lines[:7]] == [
        *("bad-luck", "many", "no-json", "nobody", "older", "text", "unnamed")
    ]
    assert lines[0] == f"{start}bad-luck: <nil>: Invalid value: thirteen brings bad luck"
    assert lines[1] == (
        f'{start}many: spec.colour: Unsupported value: "green": supported values: "red", "blue"; '
        "spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 1"
    )
    assert lines[3].startswith(f"{start}nobody: it can't be converted to v1alpha1: KeyError: 'nobody'")
    assert lines[4] == f"{start}older: spec.owner: Required value"
    assert "spec.size" in lines[5]
    assert "\x1b" not in lines[5]
    assert lines[6].startswith(f'{start}unnamed: metadata.name: Invalid value: "Not A Name"')
    assert lines[7:] == [
        "things.test.example.com: 7 of 8 would be refused",
        "others.test.example.com: 0 of 0 would be refused",
    ]
    assert done.stderr == (
        "oarlock: 7 objects in sqlite:///store.db would be refused: repair or delete the objects listed above\n"
    )


def test_where_all_fits_older_schemas_are_forgotten(folder: Path, oarlock: Any) -> None:
    async def recorded(definitions: list[Any]) -> list[str]:
        backend = SqliteBackend(folder / "store.db", VirtualClock())
        await backend.start()
        drifts = await DefinitionRecords(backend).record(definitions)
        await backend.close()
        return [change for one in drifts for change in one.changes]

    in_the_store(folder, {"fine": thing("fine", {"owner": "me"})})
    (folder / "lenient.py").write_text(STRICT.replace("    owner: str\n", '    owner: str = ""\n'))
    (folder / "strict.py").write_text(STRICT)
    lenient, definitions = (
        [one.definition for one in load_server(f"{name}.py").catalog.resources] for name in ("lenient", "strict")
    )
    assert asyncio.run(recorded(lenient)) == []
    assert asyncio.run(recorded(definitions)).count("spec.owner is required, and has no default") == 2
    done = oarlock("storage", "check", "--schemas", "strict.py", "--storage", "sqlite:///store.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == "things.test.example.com: 0 of 1 would be refused\nothers.test.example.com: 0 of 0 would be refused\n"
    )
    assert asyncio.run(recorded(definitions)) == []


def test_progress_and_mistakes_of_the_command(folder: Path, oarlock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    in_the_store(folder, {f"n{n:03}": thing(f"n{n:03}", {"size": "x" if n == 3 else n + 1}) for n in range(60)})
    done = oarlock(*CHECK)
    assert done.stdout.splitlines()[-1] == "things.test.example.com: 1 of 60 would be refused"
    shown = done.stderr.splitlines()
    assert shown[:3] == [f"things.test.example.com: {n} of 60 checked, 1 would be refused" for n in (16, 48, 60)]
    assert shown[3].startswith("oarlock: 1 object in ")
    for words in (("--schemas", "no.py"), ("--schemas", "things.py", "--storage", "memory://")):
        wrong = oarlock("storage", "check", *words)
        assert wrong.returncode == 1
        assert len(wrong.stderr.splitlines()) == 1
