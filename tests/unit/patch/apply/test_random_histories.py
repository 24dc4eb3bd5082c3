"""Several managers apply and update, in random order, objects of random schemas: what must hold after every write.

Schemas have every kind of list and map, nested in each other; values keep to them. A seed that fails is the whole
story: `history(seed)` tells it again.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from oarlock.patch.apply import fieldsets, validate
from oarlock.patch.apply.fieldsets import FieldsV1, compare
from oarlock.patch.apply.merge import merge
from oarlock.patch.apply.owned import fields_of, with_named_fields
from oarlock.patch.apply.schema import ValueType, object_type
from oarlock.patch.apply.tracking import FieldManager, FieldTracker
from oarlock.patch.errors import ApplyConflict
from oarlock.schema.structural.nodes import parse

pytestmark = pytest.mark.slow

VERSION = "random.example.com/v1"
MANAGERS = ("one", "two", "three")
SEEDS = range(400)
STEPS = 12
Tree = dict[str, Any]


class Maker:
    """Schemas and values, made of one source of chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def schema(self, depth: int = 3) -> Tree:
        kinds = ["string", "integer", "boolean", "list", "set"]
        if depth:
            kinds += ["object", "map", "items", "items", "atomic map", "atomic object", "free"] * 2
        return getattr(self, "_" + self.random.choice(kinds).replace(" ", "_"))(depth)  # type: ignore[no-any-return]

    def whole(self) -> Tree:
        names = self.random.sample(("a", "b", "c", "d", "e"), 4)
        return {"type": "object", "properties": {name: self.schema() for name in names}}

    def _string(self, depth: int) -> Tree:
        return {"type": "string"}

    def _integer(self, depth: int) -> Tree:
        return {"type": "integer"}

    def _boolean(self, depth: int) -> Tree:
        return {"type": "boolean"}

    def _list(self, depth: int) -> Tree:
        return {"type": "array", "items": {"type": "string"}}

    def _set(self, depth: int) -> Tree:
        items = self.random.choice(("string", "integer"))
        return {"type": "array", "items": {"type": items}, "x-kubernetes-list-type": "set"}

    def _object(self, depth: int) -> Tree:
        names = self.random.sample(("a", "b", "c"), 2)
        return {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}

    def _atomic_object(self, depth: int) -> Tree:
        return {**self._object(depth), "x-kubernetes-map-type": "atomic"}

    def _map(self, depth: int) -> Tree:
        return {"type": "object", "additionalProperties": self.schema(depth - 1)}

    def _atomic_map(self, depth: int) -> Tree:
        return {**self._map(depth), "x-kubernetes-map-type": "atomic"}

    def _free(self, depth: int) -> Tree:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    def _items(self, depth: int) -> Tree:
        keys = self.random.choice((["name"], ["name", "port"]))
        known: Tree = {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}}
        properties = {**{key: known[key] for key in keys}, "more": self.schema(depth - 1)}
        items = {"type": "object", "required": ["name"], "properties": properties}
        return {
            "type": "array",
            "items": items,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys,
        }

    def value(self, schema: Tree) -> Any:
        chance = self.random
        kind = schema["type"]
        if kind == "string":
            return chance.choice(("x", "y", ""))
        if kind == "integer":
            return chance.choice((0, 1, 2))
        if kind == "boolean":
            return chance.choice((True, False))
        if kind == "array":
            whole = schema.get("x-kubernetes-list-type", "atomic") == "atomic"
            # an empty set is owned by nobody: it goes with what was dropped from it, and comes with the next apply
            found = [self.value(schema["items"]) for _ in range(chance.randrange(0 if whole else 1, 4))]
            return found if whole else _unlike(schema, found)
        if "properties" in schema:
            required = schema.get("required", [])
            return {
                name: self.value(below)
                for name, below in schema["properties"].items()
                if name in required or chance.random() < 0.6
            }
        below = schema.get("additionalProperties", {"type": "string"})
        return {name: self.value(below) for name in chance.sample(("k", "l", "m"), chance.randrange(4))}


def _unlike(schema: Tree, items: list[Any]) -> list[Any]:
    """Those of which there is no other with the same key."""
    keys = schema.get("x-kubernetes-list-map-keys")
    found = {}
    for item in items:
        key = tuple(item.get(name, 80) for name in keys) if keys else item
        found.setdefault(key, item)
    return list(found.values())


class Object:
    """One object through its writes."""

    def __init__(self, seed: int) -> None:
        self.maker = Maker(seed)
        self.schema = self.maker.whole()
        self.type: ValueType = object_type(parse(self.schema))
        self.tracker = FieldTracker({VERSION: self.type})
        self.live: Tree | None = None
        self.clock = 0

    def config(self) -> Tree:
        said: Tree = self.maker.value(self.schema)
        return {"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "x"}, **said}

    def writer(self, manager: str) -> FieldManager:
        self.clock += 1
        return FieldManager(manager, VERSION, f"2026-01-01T00:{self.clock // 60:02}:{self.clock % 60:02}Z")


def owners(tree: Tree | None) -> dict[tuple[str, str], FieldsV1]:
    entries = [] if tree is None else tree["metadata"].get("managedFields", [])
    return {(entry["manager"], entry["operation"]): fieldsets.decode(entry["fieldsV1"]) for entry in entries}


def content(tree: Tree | None) -> Tree:
    return {name: value for name, value in (tree or {}).items() if name not in ("apiVersion", "kind", "metadata")}


def there(type_: ValueType, tree: Tree) -> set[Any]:
    """Every path that is in an object."""
    return set(fieldsets.iterate(compare(type_, {}, content(tree)).added))


def history(seed: int) -> Iterator[tuple[Object, Tree | None, str, bool, bool, Tree]]:
    """Each write, as it was: the object, what it was before, who applied or updated, by force, and what was said."""
    thing = Object(seed)
    chance = thing.maker.random
    for _ in range(STEPS):
        manager, before, config = chance.choice(MANAGERS), copy.deepcopy(thing.live), thing.config()
        applies = before is None or chance.random() < 0.7
        forced = False
        if applies:
            try:
                after = thing.tracker.apply(thing.live, config, thing.writer(manager))
            except ApplyConflict as refused:
                assert thing.live == before
                assert_conflicts(before, refused, manager)
                if chance.random() < 0.5:
                    continue
                forced = True
                after = thing.tracker.apply(thing.live, config, thing.writer(manager), force=True)
        else:
            assert before is not None
            said = {**config, "metadata": copy.deepcopy(before["metadata"])}
            after = thing.tracker.update(thing.live, said, thing.writer(manager))
        assert thing.live == before
        thing.live = copy.deepcopy(after)
        validate.check(thing.type, after)
        yield thing, before, manager, applies, forced, config


def assert_conflicts(before: Tree | None, refused: ApplyConflict, manager: str) -> None:
    """A conflict is with somebody else who owns the field; with nobody known, where nobody is."""
    names = owners(before)
    for conflict in refused.conflicts:
        if names:
            assert any(fieldsets.has(fields, conflict.path) for fields in names.values())
            assert str(conflict.manager) != f'"{manager}"'
        else:
            assert str(conflict.manager) == f'"before-first-apply" using {VERSION}'


@pytest.mark.parametrize("seeds", [SEEDS[i : i + 100] for i in range(0, len(SEEDS), 100)], ids=str)
def test_what_holds_after_every_write(seeds: range) -> None:
    for seed in seeds:
        for thing, before, manager, applies, forced, config in history(seed):
            assert thing.live is not None
            check_owners_are_there(thing, seed)
            if applies:
                check_applied(thing, manager, config, seed)
                check_dropped(thing, before, manager, seed)
                if not forced:
                    check_nobody_lost(thing, before, manager, seed)
                check_again(thing, manager, config, seed)


def check_owners_are_there(thing: Object, seed: int) -> None:
    """Owners can be read, own something, and own nothing that isn't there."""
    assert thing.live is not None
    paths = there(thing.type, thing.live)
    for who, fields in owners(thing.live).items():
        assert fields, (seed, who)
        missing = set(fieldsets.iterate(fields)) - paths
        assert not missing, (seed, who, missing)


def check_applied(thing: Object, manager: str, config: Tree, seed: int) -> None:
    """The object says what the configuration says, and the applier owns just that."""
    live, said = content(thing.live), content(config)
    assert merge(thing.type, live, said) == live, seed
    mine = owners(thing.live).get((manager, "Apply"), {})
    assert set(fieldsets.iterate(mine)) == set(fieldsets.iterate(fields_of(thing.type, said))), seed


def check_dropped(thing: Object, before: Tree | None, manager: str, seed: int) -> None:
    """What the applier owned and nobody owns now is gone."""
    assert thing.live is not None
    last = owners(before).get((manager, "Apply"), {})
    owned: FieldsV1 = {}
    for fields in owners(thing.live).values():
        owned = fieldsets.union(owned, with_named_fields(thing.type, fields))
    lost = fieldsets.difference(last, owned)
    left = {path for path in fieldsets.iterate(lost) if path in there(thing.type, thing.live)}
    assert not left, (seed, left)


def check_nobody_lost(thing: Object, before: Tree | None, manager: str, seed: int) -> None:
    """Without force no value of anybody else changed, nor who owns it.

    An item, or a key of a map, that only the applier owned goes as a whole, also with fields in it that others set. A
    list or map goes with the last that is in it.
    """
    changes = compare(thing.type, content(before), content(thing.live))
    names, after = owners(before), owners(thing.live)
    last = names.pop((manager, "Apply"), {})
    for who, fields in names.items():
        assert not fieldsets.intersection(fields, changes.changed), (seed, who)
        lost = fieldsets.difference(fields, after.get(who, {}))
        for path in fieldsets.iterate(lost):
            assert fieldsets.has(changes.removed, path), (seed, who, path)
            whole = [path[:i] for i in range(1, len(path)) if fieldsets.has(last, path[:i])]
            emptied = any(known[: len(path)] == path for known in fieldsets.iterate(last))
            assert emptied or any(fieldsets.has(changes.removed, parent) for parent in whole), (seed, who, path)
        assert not fieldsets.difference(after.get(who, {}), fields), (seed, who)


def check_again(thing: Object, manager: str, config: Tree, seed: int) -> None:
    """The same again changes nothing, not even the time."""
    again = thing.tracker.apply(thing.live, config, thing.writer(manager))
    assert again == thing.live, seed
