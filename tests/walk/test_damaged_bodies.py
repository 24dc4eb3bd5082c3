"""Bodies of every content type, for every verb that takes one, edited and damaged: taken or refused, nothing between.

Whatever is sent, the answer is a 2xx, or a 4xx with a Status in the form that was asked for, and then the store is as
it was before. Trees are edited first, so that codecs let them through and what comes after must judge them.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from dataclasses import dataclass
from typing import Any

import cbor2
import pytest
import yaml
from apply_kit import BARGES, Barge, OldBarge
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from test_protobuf_of_declared_types import KITES, PULL, Kites, OldKite
from thoroughness import examples
from walk_kit import BOATS, BOATS_V1, CRATES, PORTS, Boats, BoatV1Alpha1, HastyLoop, Port, crate

from oarlock import APIServer
from oarlock.codec import cbor, protobuf
from oarlock.codec import yaml as yaml_codec
from oarlock.codec.kubernetes_messages import Message, kubernetes_message, meta_message
from oarlock.codec.protowire import ProtobufError
from oarlock.endpoints.in_protobuf import message_of
from oarlock.schema.types.views import object_schema
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import Answer, InMemory

pytestmark = pytest.mark.slow

JSON, YAML, CBOR = "application/json", "application/yaml", "application/cbor"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY, APPLY_CBOR = "application/apply-patch+yaml", "application/apply-patch+cbor"
OBJECTS, PATCHES = (JSON, YAML, CBOR, PROTOBUF), (JSON_PATCH, MERGE, STRATEGIC, APPLY, APPLY_CBOR)
FEW = examples(
    50,
    phases=[Phase.generate],  # what fails is told by itself; making a batch smaller takes minutes
    suppress_health_check=list(HealthCheck),
)
Tree = dict[str, Any]


def numbered(cls: Any, kind: str) -> Message:
    message = message_of(object_schema(cls), kind)
    assert message is not None
    return message


SCALE_MESSAGE = kubernetes_message("autoscaling.v1.Scale")
DELETE_OPTIONS = kubernetes_message("meta.v1.DeleteOptions")


@dataclass(frozen=True)
class Place:
    """Somewhere to send things: a collection, what is usual there, and what it is in protobuf if it has numbers."""

    where: str
    tree: Tree
    message: Message | None = None
    sub: str = ""
    verbs: tuple[str, ...] = ("POST", "PUT", "PATCH", "PATCH", "DELETE")


def usual(api_version: str, kind: str, **rest: Any) -> Tree:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "labels": {"x": "y"}}, **rest}


BARGE = usual(
    "apply.example.com/v1",
    "Barge",
    spec={
        "cargo": "coal", "replicas": 1, "holds": [{"name": "fore", "tons": 2}, {"name": "aft"}], "ports": ["p", "q"],
        "flag": {"colour": "red"}, "notes": {"a": "b"},
    },
    status={"phase": "p", "conditions": [{"type": "t", "status": "s"}]},
)  # fmt: skip
KITE = usual("fly.example.com/v2", "Kite", spec={"colour": "red", "length": 9, "tails": ["t"], "line": "5m"})
PLACES = (
    Place(BOATS, usual("walk.example.com/v2", "Boat", spec={"port": "x", "crew": 2, "tags": ["t"], "captain": None})),
    Place(BOATS_V1, usual("walk.example.com/v1", "Boat", spec={"harbour": "x", "crew": 7})),
    Place(CRATES, usual("walk.example.com/v1", "Crate", spec={"size": 3, "free": {"x": [1, {"y": None}]}})),
    Place(PORTS, usual("walk.example.com/v1", "Port", depth=3, note="n")),
    Place(BARGES, BARGE),
    Place(BARGES, BARGE, sub="/status", verbs=("PUT", "PATCH")),
    Place(BARGES, usual("autoscaling/v1", "Scale", spec={"replicas": 3}), SCALE_MESSAGE, "/scale", ("PUT", "PATCH")),
    Place(KITES, KITE, numbered(Kites.__resource__, "Kite")),
    Place(KITES, usual("fly.example.com/v1", "Pull", metres=2), PULL, "/pull", ("POST",)),
)
DELETION = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "dryRun": ["All"]}
MERGES = (
    {"spec": {"holds": [{"name": "fore", "tons": 9}, {"name": "aft", "$patch": "delete"}]}},
    {"spec": {"$setElementOrder/holds": [{"name": "aft"}, {"name": "fore"}], "holds": [{"$patch": "replace"}]}},
    {"spec": {"ports": ["z"], "$deleteFromPrimitiveList/ports": ["p"], "$setElementOrder/ports": ["z", "q"]}},
    {"spec": {"flag": {"$retainKeys": ["colour"], "colour": "b"}}, "$patch": "merge"},
)
NAMES = [
    "metadata", "spec", "status", "name", "labels", "annotations", "finalizers", "ownerReferences", "managedFields",
    "uid", "resourceVersion", "creationTimestamp", "kind", "apiVersion", "holds", "ports", "flag", "notes", "tails",
    "$patch", "$retainKeys", "$setElementOrder/holds", "$deleteFromPrimitiveList/ports", "dryRun", "preconditions", "",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, 10**309, 0.5, -0.0, 1e300, 1.0]
    ),
    st.sampled_from(
        ["", "a", "x" * 300, "é", "\0", "1", "null", "yes", "a/b", "2026-01-01T00:00:00Z", "\u2028", "<&>"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
EDITS = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["put", "put", "gone"]), st.sampled_from(NAMES), VALUES), max_size=3
)
POINTERS = st.sampled_from(
    [
        "", "/", "/spec", "/metadata", "/metadata/name", "/metadata/uid", "/metadata/labels/~1", "/metadata/labels/~2",
        "/metadata/finalizers/-", "/metadata/managedFields/0", "/spec/holds/0", "/spec/holds/-1", "/spec/holds/01",
        "/spec/holds/99999999999999999999", "/spec/ports/-", "/kind", "/status", "spec", "/" + "a/" * 300,
    ]
)  # fmt: skip
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": POINTERS},
        optional={"from": POINTERS, "value": VALUES, "x": SCALARS},
    ),
    max_size=4,
)
PIECES = [
    b"", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\0", b"[", b"{", b'"', b",", b":", b"\n", b"\t", b"NaN", b"1e999",
    b"9" * 60, b"&a ", b"*a ", b"<<: ", b"? ", b"- ", b"!!binary ", b"!!float ", b"\n---\n{}",
    b"\xf9\x7e\x00", b"\xfb\x7f\xf0\0\0\0\0\0\0", b"\xc2\x58\x20" + b"\xff" * 32, b"\xd8\x1c", b"\xd8\x1d\x00",
    b"\x9b" + b"\x7f" * 8, b"\x5b" + b"\x7f" * 8, b"\xbf", b"\x9f", b"\x7f", b"\xff\xff\xff\xff\x7f",
]  # fmt: skip
DAMAGES = st.lists(
    st.tuples(
        st.integers(0, 999), st.sampled_from([0, 0, 1, 3, 9, 10**6]), st.sampled_from(PIECES) | st.binary(max_size=3)
    ),
    max_size=2,
)
BOMBS = [
    b"", b" ", b"{}", b"null", b"[" * 50_000, b'{"a":' * 20_000, b"{}{}", b'{"a":01}', b'{"a":-}', b'{"a":NaN}',
    b'{"metadata":{"name":"a","name":"b"}}', b"9" * 10_000, b"1e99999", b"\xef\xbb\xbf{}", b"\xff\xfe{\0}\0",
    b"- " * 2000, b"? " * 1000, b"a: &a [*a]", b"a: &a {<<: *a}", b"%YAML 9.9\n---\n{}", b"!!python/object:os.system x",
    b"a0: &a0 [1]\n" + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 9)),
    b"\x81" * 50_000, b"\xa1\x61a" * 20_000, b"\xd8\x20" * 5000 + b"\x00", b"\x9f" * 1000, b"\xbb" + b"\xff" * 8,
    b"\x5b" + b"\xff" * 8, b"\x7a\xff\xff\xff\xff", b"\xa2\x61a\x01\x61a\x02", b"\xa1\x01\x02", b"\xf7",
    b"k8s\0", b"k8s\0\x12\xff\xff\xff\xff\x0f", b"k8s\0" + b"\x12\x80" * 20, b"k8s\0" + b"\x0b" * 50,
    b"k8s\0\x12\x02\x12\xff",
]  # fmt: skip


def edited(tree: Any, edits: Any) -> Any:
    """The tree with values put and taken away at places counted from its top."""
    tree = copy.deepcopy(tree)
    for spot, how, name, value in edits:
        places: list[Any] = []
        waiting = [tree]
        while waiting:
            here = waiting.pop(0)
            if isinstance(here, (dict, list)):
                places.append(here)
                waiting += here.values() if isinstance(here, dict) else here
        if not places:
            return value
        place = places[spot % len(places)]
        if isinstance(place, dict):
            if how == "put":
                place[name] = value
            elif place:
                del place[sorted(place)[spot % len(place)]]
        elif how == "put":
            place.insert(spot % (len(place) + 1), value)
        elif place:
            del place[spot % len(place)]
    return tree


def damaged(data: bytes, damages: Any) -> bytes:
    for permille, gone, put in damages:
        at = len(data) * permille // 1000
        data = data[:at] + put + data[at + gone :]
    return data


def encoded(tree: Any, media: str, place: Place, message: Message | None) -> bytes:
    """The tree in a media type; one that can't say it gets what is usual there."""
    try:
        if media in (CBOR, APPLY_CBOR):
            return cbor2.dumps(tree)
        if media in (YAML, APPLY):
            return yaml.safe_dump(tree, allow_unicode=True).encode()
        if media == PROTOBUF:
            said = tree if isinstance(tree, dict) else place.tree
            return protobuf.envelope(
                place.tree["apiVersion"], place.tree["kind"], (message or DELETE_OPTIONS).write(said)
            )
        return json.dumps(tree).encode()
    except (ProtobufError, TypeError, ValueError, yaml.YAMLError):
        return json.dumps(place.tree).encode()


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, str, str, bytes]:
    """Method, path, media type, Accept and body."""
    place = draw(st.sampled_from(PLACES))
    verb = draw(st.sampled_from(place.verbs))
    called = draw(st.sampled_from("aaabcdef"))
    name = "" if verb == "POST" and not place.sub else f"/{called}"
    query = draw(st.sampled_from(["", "", "fieldValidation=Strict", "fieldValidation=Ignore", "dryRun=All"]))
    objects = OBJECTS if place.message or verb == "DELETE" else OBJECTS[:-1]
    media = draw(st.sampled_from(PATCHES if verb == "PATCH" else objects))
    message = place.message
    if media in (APPLY, APPLY_CBOR):
        query += draw(st.sampled_from(["&fieldManager=m", "&fieldManager=n&force=true"]))
    tree: Any = {**place.tree, "metadata": {**place.tree["metadata"], "name": called}}
    if verb == "DELETE":
        tree, message = DELETION, DELETE_OPTIONS
    elif media == STRATEGIC:
        tree = draw(st.sampled_from([tree, *MERGES]))
    elif media == JSON_PATCH:
        tree = draw(OPERATIONS)
    how = draw(st.sampled_from(["whole", "edited", "damaged", "both"]))
    tree = edited(tree, draw(EDITS)) if how in ("edited", "both") else tree
    data = encoded(tree, media, place, message)
    data = damaged(data, draw(DAMAGES)) if how in ("damaged", "both") else data
    accept = draw(st.sampled_from([JSON, JSON, YAML, CBOR, PROTOBUF if place.message else JSON, f"{PROTOBUF},{JSON}"]))
    return verb, f"{place.where}{name}{place.sub}?{query}", media, accept, data


READ = {
    JSON: json.loads,
    YAML: lambda data: yaml_codec.decode(data)[0],
    CBOR: cbor.decode,
    PROTOBUF: lambda data: protobuf.decode(data, meta_message("Status")),
}
OURS = re.compile(r"<class|object at 0x|NoneType|Traceback|codec can't|\{'\w")
"""What only Python says."""


def check(answer: Answer, accept: str, told: Any) -> None:
    if 200 <= answer.status < 300:
        return
    if answer.status == 500:
        # what Kubernetes answers here, for reasons of its own
        assert b"resourceVersion should not be set on objects to be created" in answer.body, (told, answer)
        return
    assert 400 <= answer.status < 500, (told, answer)
    media = answer.headers["content-type"]
    assert media in accept.split(","), (told, answer)
    status = READ[media](answer.body)
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", answer.status)
    assert status["message"], told
    assert not OURS.search(status["message"].partition("Invalid value:")[0]), (told, status)
    causes = status.get("details", {}).get("causes", [])
    assert all(cause.get("field") for cause in causes if answer.status == 422), (told, status)


async def bombarded(batch: Any) -> None:
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    server = APIServer(serve=[Boats, BoatV1Alpha1, Port, crate(), Barge, OldBarge, Kites, OldKite])

    async def stored() -> list[tuple[str, bytes]]:
        return [(kv.key, kv.value) for kv in (await backend.list("/registry/", "/registry0")).kvs]

    async with InMemory(server, backend=backend, clock=clock) as api:
        for place in PLACES:
            if not place.sub and place.where != BOATS_V1:
                assert (await api.post(place.where, place.tree)).status == 201
        before = await stored()
        for method, where, media, accept, body in batch:
            told = (method, where, media, accept, body)
            sent = api.request(method, where, body, {"content-type": media, "accept": accept})
            answer = await asyncio.wait_for(sent, 50)
            check(answer, accept, told)
            after = await stored()
            if answer.status >= 400 or ("dryRun=All" in where and method != "DELETE"):  # there the body counts
                assert after == before, told
            before = after


def run(batch: Any) -> None:
    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(bombarded(batch))


@FEW
@given(st.lists(requests(), min_size=20, max_size=30))
def test_edited_and_damaged_bodies(batch: list[Any]) -> None:
    run(batch)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.tree["kind"] + place.sub)
def test_bodies_that_are_made_to_hurt(place: Place) -> None:
    batch = []
    for bomb in BOMBS:
        for verb in dict.fromkeys(place.verbs):
            name = "" if verb == "POST" and not place.sub else "/a"
            for media in PATCHES if verb == "PATCH" else OBJECTS:
                if verb == "DELETE" and not bomb.strip():
                    continue  # no body is no mistake there
                batch.append((verb, f"{place.where}{name}{place.sub}?fieldManager=m", media, JSON, bomb))
    run(batch)
