"""Whatever is applied is answered: never a 500, and never half a write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from apply_kit import ONE, V1, barge, canal, send
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from thoroughness import examples
from walk_kit import HastyLoop

from oarlock.testing.server import Answer, InMemory

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(
    [
        "cargo",
        "captain",
        "replicas",
        "holds",
        "ports",
        "crew",
        "flag",
        "notes",
        "name",
        "tons",
        "colour",
        "stripes",
        "x",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=6), st.sampled_from(["", "a", "b", "\x00", "\ud800", "é", "1", "null", "f:a", "k:{}"])
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**53 + 1, 2**63, 2**64, 10**400, -(2**63) - 1]),
    st.floats(allow_nan=False),
    TEXTS,
)
ANYTHING = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(st.one_of(NAMES, TEXTS), below, max_size=4)),
    max_leaves=12,
)
HOLD = st.one_of(
    st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c"])}, optional={"tons": st.integers(0, 3)}), ANYTHING
)
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "cargo": st.one_of(TEXTS, ANYTHING),
        "captain": st.one_of(st.none(), TEXTS),
        "replicas": st.one_of(st.integers(-1, 3), SCALARS),
        "holds": st.one_of(st.lists(HOLD, max_size=3), ANYTHING),
        "ports": st.one_of(st.lists(st.sampled_from(["a", "b", "c"]), max_size=3), ANYTHING),
        "crew": st.one_of(st.lists(TEXTS, max_size=3), ANYTHING),
        "flag": ANYTHING,
        "notes": st.one_of(st.dictionaries(TEXTS, TEXTS, max_size=3), ANYTHING),
    },
)
VALID = st.fixed_dictionaries(
    {},
    optional={
        "cargo": TEXTS,
        "captain": st.one_of(st.none(), TEXTS),
        "replicas": st.one_of(st.none(), st.integers(-1, 3)),
        "holds": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c"])}, optional={"tons": st.integers(0, 3)}),
            max_size=3,
            unique_by=lambda hold: hold["name"],
        ),
        "ports": st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True),
        "crew": st.lists(TEXTS, max_size=3),
        "flag": st.fixed_dictionaries({}, optional={"colour": TEXTS, "stripes": st.integers(0, 2)}),
        "notes": st.dictionaries(TEXTS, st.one_of(st.none(), TEXTS), max_size=3),
    },
)
METADATA = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.one_of(st.just("one"), ANYTHING),
            "namespace": st.one_of(st.just("default"), ANYTHING),
            "labels": st.one_of(st.dictionaries(TEXTS, TEXTS, max_size=2), ANYTHING),
            "annotations": st.one_of(st.dictionaries(TEXTS, TEXTS, max_size=2), ANYTHING),
            "finalizers": st.one_of(st.lists(st.sampled_from(["a/b", "c/d"]), max_size=2), ANYTHING),
            "ownerReferences": st.one_of(
                st.lists(
                    st.fixed_dictionaries({"uid": st.sampled_from(["u", "v"])}, optional={"name": TEXTS}), max_size=2
                ),
                ANYTHING,
            ),
            "resourceVersion": ANYTHING,
            "uid": ANYTHING,
            "managedFields": ANYTHING,
            "generation": ANYTHING,
            "creationTimestamp": ANYTHING,
            "deletionTimestamp": ANYTHING,
            "deletionGracePeriodSeconds": ANYTHING,
            "generateName": ANYTHING,
            "x": ANYTHING,
        },
    ),
    ANYTHING,
)
CONFIGURATIONS = st.fixed_dictionaries(
    {
        "apiVersion": st.one_of(st.just(V1), st.just(V1), ANYTHING),
        "kind": st.one_of(st.just("Barge"), st.just("Barge"), ANYTHING),
    },
    optional={"metadata": METADATA, "spec": st.one_of(LIKELY, ANYTHING), "status": ANYTHING, "x": ANYTHING},
)
LIKELY_ONES = st.builds(lambda spec, metadata: {**barge(spec), "metadata": metadata}, LIKELY, METADATA)
FORMS: dict[str, Callable[[Any], bytes]] = {
    "json": lambda config: json.dumps(config).encode(),
    "yaml": lambda config: yaml.safe_dump(config).encode(),
    "flow": lambda config: yaml.safe_dump(config, default_flow_style=True).encode(),
}
WHERE = st.sampled_from([*[ONE] * 6, f"{ONE}/status", f"{ONE}/scale"])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "force": st.sampled_from(["true", "false"]),
        "dryRun": st.just("All"),
        "fieldValidation": st.sampled_from(["Strict", "Warn", "Ignore"]),
    },
)
ONE_APPLY = st.tuples(
    st.one_of(*[st.builds(barge, VALID)] * 4, CONFIGURATIONS, LIKELY_ONES, st.builds(barge, LIKELY)),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(["left", "right"]),
    WHERE,
    OPTIONS,
)
FEW = examples(60, suppress_health_check=list(HealthCheck))


def run(work: Callable[[InMemory], Any]) -> None:
    async def walk() -> None:
        api, _, _ = canal()
        async with api:
            await work(api)

    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(walk())


def check(answer: Answer, said: Any) -> None:
    assert answer.status < 500, (said, answer.body)
    if answer.status < 300:
        metadata = answer.json["metadata"]
        assert (metadata["name"], metadata["namespace"]) == ("one", "default")
    else:
        assert answer.json["kind"] == "Status"
        assert answer.json["message"]


@FEW
@given(st.lists(ONE_APPLY, min_size=1, max_size=6))
def test_configurations_of_any_content_are_taken_or_refused(applies: list[Any]) -> None:
    async def work(api: InMemory) -> None:
        for config, form, manager, where, options in applies:
            try:
                data = FORMS[form](config)
            except (UnicodeEncodeError, yaml.YAMLError):
                continue
            answer = await send(api, data, manager, where, **options)
            check(answer, data)
            if answer.status < 300 and not options.get("dryRun"):
                # a list emptied by this one is there again, empty, after the next; the third can't find a change
                second = await send(api, data, manager, where, **options)
                third = await send(api, data, manager, where, **options)
                assert (second.status, third.status) in ((200, 200), (409, 409)), (data, second.body)
                assert third.json == second.json, data
            there = await api.get(ONE)
            assert there.status in (200, 404)

    run(work)


@FEW
@given(
    st.lists(st.one_of(st.binary(max_size=60), TEXTS.map(lambda text: text.encode(errors="surrogatepass"))), max_size=8)
)
def test_bytes_of_any_kind_are_refused(bodies: list[bytes]) -> None:
    async def work(api: InMemory) -> None:
        for data in bodies:
            answer = await send(api, data)
            assert 400 <= answer.status < 500, (data, answer.body)

    run(work)


@FEW
@given(st.data())
def test_damaged_text_is_taken_or_refused(data: st.DataObject) -> None:
    whole = FORMS[data.draw(st.sampled_from(sorted(FORMS)))](
        barge({"cargo": "coal", "holds": [{"name": "a", "tons": 2}], "ports": ["b"]}, labels={"c": "d"})
    )
    damages = st.tuples(st.integers(0, len(whole)), st.integers(0, 3), st.binary(max_size=3))
    bodies = []
    for start, gone, put in data.draw(st.lists(damages, min_size=1, max_size=8)):
        bodies.append(whole[:start] + put + whole[start + gone :])

    async def work(api: InMemory) -> None:
        for body in bodies:
            check(await send(api, body), body)

    run(work)
