"""Several managers apply barges in two versions over HTTP, with defaults and empty values: what holds for clients."""

from __future__ import annotations

import random
from typing import Any

import pytest
from apply_kit import OLD_ONE, ONE, V1BETA1, barge, canal, entries, owned, send
from walk_kit import walk

from oarlock.testing.server import InMemory

pytestmark = pytest.mark.slow

MANAGERS = ("left", "right", "old")


def spec(chance: random.Random) -> dict[str, Any]:
    """What one manager wants of a barge."""
    likely: dict[str, Any] = {
        "cargo": chance.choice(("coal", "ore")),
        "captain": chance.choice(("anna", "ben")),
        "replicas": chance.randrange(3),
        "holds": [
            {"name": name, **({"tons": chance.randrange(1, 3)} if chance.random() < 0.5 else {})}
            for name in chance.sample(("a", "b", "c"), chance.randrange(1, 3))
        ],
        "ports": chance.sample(("x", "y", "z"), chance.randrange(1, 3)),
        "crew": chance.sample(("p", "q"), chance.randrange(3)),
        "flag": {"colour": chance.choice(("red", "blue"))},
        "notes": {name: chance.choice("12") for name in chance.sample(("k", "l"), chance.randrange(1, 3))},
    }
    return {name: value for name, value in likely.items() if chance.random() < 0.5}


def says(tree: Any, said: Any) -> bool:
    """Is everything that was applied in the object? Items of lists of items by their name, of sets in any order."""
    if isinstance(said, dict):
        return all(name in tree and says(tree[name], value) for name, value in said.items())
    if isinstance(said, list) and said and isinstance(said[0], dict):
        found = {item["name"]: item for item in tree}
        return all(item["name"] in found and says(found[item["name"]], item) for item in said)
    if isinstance(said, list):
        return set(said) <= set(tree)
    return bool(tree == said)


async def one(api: InMemory, chance: random.Random, clock: Any) -> None:
    """One manager applies: granted, or refused and then perhaps forced."""
    clock.advance(1)
    manager = chance.choice(MANAGERS)
    wanted, where = spec(chance), ONE
    config = barge(wanted)
    if manager == "old":
        said = {"load": wanted["cargo"]} if "cargo" in wanted else {}
        config, where = barge(said, api_version=V1BETA1), OLD_ONE
    before = await api.get(ONE)
    answer = await send(api, config, manager, where)
    forced = answer.status == 409
    if forced:
        assert all(cause["reason"] == "FieldManagerConflict" for cause in answer.json["details"]["causes"])
        assert (await api.get(ONE)).json == before.json
        dry = await send(api, config, manager, where, force="true", dryRun="All")
        assert (await api.get(ONE)).json == before.json
        answer = await send(api, config, manager, where, force="true")
        assert dry.json["spec"] == answer.json["spec"]
    assert answer.status == (201 if before.status == 404 else 200), answer.body
    assert says(answer.json["spec"], config["spec"]), (config, answer.json)
    whole = (await api.get(ONE)).json
    if before.status == 200 and not forced:
        assert_kept(before.json, whole, manager)
    assert_nothing_left(whole)
    again = await send(api, config, manager, where)
    assert again.json == answer.json


def assert_kept(before: Any, after: Any, manager: str) -> None:
    """What others own is theirs still, with its value."""
    for other in MANAGERS:
        if other == manager:
            continue
        assert owned(after, other) == owned(before, other)
        for path in ("spec.captain", "spec.replicas", "spec.crew", "spec.flag", "spec.notes.k", "spec.notes.l"):
            if path in owned(before, other):
                assert at(after, path) == at(before, path)


def assert_nothing_left(tree: Any) -> None:
    """What nobody owns is a default, or isn't there."""
    everybody = set().union(*(owned(tree, manager) for manager in MANAGERS))
    has = tree["spec"]
    if not {"spec.cargo", "spec.load"} & everybody:
        assert has["cargo"] == ""
    for name in ("captain", "replicas", "crew", "flag"):
        if f"spec.{name}" not in everybody:
            assert name not in has
    for name in has.get("notes", {}):
        assert f"spec.notes.{name}" in everybody
    for hold in has.get("holds", []):
        assert f"spec.holds[{hold['name']}]" in everybody
        if f"spec.holds[{hold['name']}].tons" not in everybody:
            assert hold["tons"] == 1
    for port in has.get("ports", []):
        assert f"spec.ports[={port}]" in everybody
    assert {operation for _, operation in entries(tree)} <= {"Apply"}


def at(tree: Any, path: str) -> Any:
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, dict) else None
    return tree


@pytest.mark.parametrize("seed", range(12))
def test_what_clients_may_rely_on(seed: int) -> None:
    @walk
    async def check() -> None:
        api, clock, _ = canal()
        async with api:
            chance = random.Random(seed)
            for _ in range(20):
                await one(api, chance, clock)

    check()


@walk
async def test_an_owner_in_a_version_that_says_little_costs_nobody_anything():
    api, _, _ = canal()
    async with api:
        await send(api, barge({"cargo": "coal", "holds": [{"name": "a"}], "notes": {"k": "1"}}), "left")
        await send(api, barge({"ports": ["x"], "holds": [{"name": "c"}]}), "right")
        await send(api, barge({"captain": "anna"}, api_version=V1BETA1), "old", OLD_ONE)
        tree = (await send(api, barge({"holds": [{"name": "b"}], "notes": {"l": "2"}}), "left")).json
        assert [hold["name"] for hold in tree["spec"]["holds"]] == ["c", "b"]
        assert (tree["spec"]["cargo"], tree["spec"]["captain"], tree["spec"]["notes"]) == ("", "anna", {"l": "2"})
        assert tree["spec"]["ports"] == ["x"]
        tree = (await send(api, barge({"crew": ["p"], "ports": ["y"]}), "old")).json
        assert "captain" not in tree["spec"]
        assert (tree["spec"]["crew"], tree["spec"]["ports"]) == (["p"], ["x", "y"])
        assert len(tree["spec"]["holds"]) == 2
        back = await send(api, barge({"load": "ore"}, api_version=V1BETA1), "old", OLD_ONE)
        assert back.json["spec"] == {"load": "ore"}
        tree = (await api.get(ONE)).json
        assert tree["spec"]["cargo"] == "ore"
        assert "holds" in tree["spec"]
