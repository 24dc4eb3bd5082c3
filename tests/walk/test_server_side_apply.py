"""Apply against a whole server: what becomes of the object, and how mistakes and conflicts are told.

Who owns what after other writes is in `test_field_ownership`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from apply_kit import (
    APPLY,
    BARGES,
    GROUP,
    JSON_PATCH,
    MERGE,
    OLD_ONE,
    ONE,
    STRATEGIC,
    V1,
    V1BETA1,
    Barge,
    apply,
    barge,
    canal,
    entries,
    owned,
    send,
    time_of,
)
from walk_kit import failure, walk

from oarlock import Admission, Context, Resource, Review, VirtualCollection
from oarlock.registry.served import Served
from oarlock.schema.crd import parse

YAML = b"""\
apiVersion: apply.example.com/v1
kind: Barge
metadata:
  name: one
  labels: {a: "1"}
spec:
  cargo: coal  # for the winter
  ports: [basel, mainz]
"""


@walk
async def test_the_first_apply_creates_and_the_next_changes():
    api, _, _ = canal()
    async with api:
        answer = await send(api, barge({"cargo": "coal", "holds": [{"name": "fore"}]}))
        assert answer.status == 201
        made = answer.json
        assert made["metadata"]["uid"]
        assert made["metadata"]["generation"] == 1
        assert made["metadata"]["namespace"] == "default"
        assert made["spec"]["holds"] == [{"name": "fore", "tons": 1}]
        assert entries(made) == [("m", "Apply")]
        assert owned(made, "m") == {"spec.cargo", "spec.holds[fore]", "spec.holds[fore].name"}

        answer = await send(api, barge({"cargo": "ore", "holds": [{"name": "fore", "tons": 3}]}))
        assert answer.status == 200
        assert answer.json["spec"]["holds"] == [{"name": "fore", "tons": 3}]
        assert answer.json["metadata"]["generation"] == 2
        assert owned(answer.json, "m") == {"spec.cargo", "spec.holds[fore]", "spec.holds[fore].name"} | {
            "spec.holds[fore].tons"
        }
        assert (await api.get(ONE)).json == answer.json


@walk
async def test_a_configuration_of_what_is_there_need_not_say_its_name_or_namespace():
    api, _, _ = canal()
    async with api:
        assert (await send(api, barge({"cargo": "coal"}))).status == 201
        answer = await send(api, {"apiVersion": V1, "kind": "Barge", "spec": {"cargo": "coal"}})
        assert (answer.status, answer.json["metadata"]["name"]) == (200, "one")
        answer = await send(api, barge({"cargo": "coal"}, namespace="default"))
        assert answer.status == 200


@walk
async def test_yaml_and_json_are_the_same():
    api, clock, _ = canal()
    async with api:
        first = await send(api, YAML)
        assert first.status == 201
        clock.advance(60)
        again = await send(api, barge({"cargo": "coal", "ports": ["basel", "mainz"]}, labels={"a": "1"}))
        assert again.json == first.json


@walk
async def test_applying_what_is_writes_nothing_and_tells_no_watcher():
    api, clock, backend = canal()
    async with api:
        first = await apply(api, {"cargo": "coal", "holds": [{"name": "fore"}], "ports": ["basel"]})
        before = await backend.current_rev()
        async with api.watch(f"{BARGES}?resourceVersion={first['metadata']['resourceVersion']}") as events:
            clock.advance(3600)
            again = await apply(api, {"cargo": "coal", "holds": [{"name": "fore"}], "ports": ["basel"]})
            assert again == first
            assert await backend.current_rev() == before
            clock.advance(1)
            changed = await apply(api, {"cargo": "ore"})
            assert await events.next() == ("MODIFIED", changed)
        assert time_of(changed, "m") != time_of(first, "m")


@walk
async def test_a_conflict_names_the_owner_and_every_field():
    api, _, _ = canal()
    async with api:
        await apply(api, {"cargo": "coal", "captain": "Anna"}, "first")
        answer = await send(api, barge({"cargo": "ore"}), "second")
        assert failure(answer) == (
            409,
            "Conflict",
            'Apply failed with 1 conflict: conflict with "first": .spec.cargo',
        )
        assert answer.json["details"] == {
            "causes": [
                {"reason": "FieldManagerConflict", "message": 'conflict with "first"', "field": ".spec.cargo"},
            ]
        }
        await api.patch(f"{ONE}?fieldManager=third", {"spec": {"notes": {"a": "1"}}})
        config = barge({"cargo": "ore", "captain": "Berta", "notes": {"a": "2"}})
        answer = await send(api, config, "second")
        code, _, message = failure(answer)
        assert code == 409
        assert message == (
            'Apply failed with 3 conflicts: conflicts with "first":\n- .spec.captain\n- .spec.cargo\n'
            'conflicts with "third" using apply.example.com/v1:\n- .spec.notes.a'
        )
        assert [cause["field"] for cause in answer.json["details"]["causes"]] == [
            ".spec.captain",
            ".spec.cargo",
            ".spec.notes.a",
        ]
        assert (await api.get(ONE)).json["spec"] == {"cargo": "coal", "captain": "Anna", "notes": {"a": "1"}}


@walk
async def test_force_takes_the_field_and_only_that():
    api, _, _ = canal()
    async with api:
        await apply(api, {"cargo": "coal", "captain": "Anna"}, "first")
        tree = await apply(api, {"cargo": "ore"}, "second", force="true")
        assert tree["spec"] == {"cargo": "ore", "captain": "Anna"}
        assert owned(tree, "first") == {"spec.captain"}
        assert owned(tree, "second") == {"spec.cargo"}
        assert (await send(api, barge({"cargo": "coal", "captain": "Anna"}), "first")).status == 409


@walk
async def test_a_value_may_have_two_owners_and_stays_until_both_let_go():
    api, _, _ = canal()
    async with api:
        await apply(api, {"cargo": "coal", "captain": "Anna"}, "first")
        tree = await apply(api, {"captain": "Anna"}, "second")
        assert "spec.captain" in owned(tree, "first") & owned(tree, "second")
        tree = await apply(api, {"cargo": "coal"}, "first")
        assert tree["spec"]["captain"] == "Anna"
        assert owned(tree, "first") == {"spec.cargo"}
        tree = await apply(api, {}, "second")
        assert tree["spec"] == {"cargo": "coal"}
        assert entries(tree) in ([("first", "Apply")], [("first", "Apply"), ("second", "Apply")])


@walk
async def test_what_a_manager_leaves_out_goes_back_to_the_default():
    api, _, _ = canal()
    async with api:
        await apply(api, {"cargo": "coal", "holds": [{"name": "fore", "tons": 7}]})
        tree = await apply(api, {"holds": [{"name": "fore"}]})
        assert tree["spec"] == {"cargo": "", "holds": [{"name": "fore", "tons": 1}]}
        assert owned(tree, "m") == {"spec.holds[fore]", "spec.holds[fore].name"}


@walk
async def test_items_with_keys_belong_to_whoever_applies_them():
    api, _, _ = canal()
    async with api:
        await apply(api, {"holds": [{"name": "fore", "tons": 2}, {"name": "aft"}]}, "first")
        tree = await apply(api, {"holds": [{"name": "mid"}, {"name": "aft", "tons": 1}]}, "second")
        assert {hold["name"]: hold["tons"] for hold in tree["spec"]["holds"]} == {"fore": 2, "aft": 1, "mid": 1}
        tree = await apply(api, {"holds": []}, "first")
        assert sorted(hold["name"] for hold in tree["spec"]["holds"]) == ["aft", "mid"]
        answer = await send(api, barge({"holds": [{"name": "aft", "tons": 4}]}), "first")
        assert failure(answer)[2] == (
            'Apply failed with 1 conflict: conflict with "second": .spec.holds[name="aft"].tons'
        )


@walk
async def test_sets_are_joined_and_plain_lists_and_atomic_objects_have_one_owner():
    api, _, _ = canal()
    async with api:
        await apply(api, {"ports": ["basel"], "crew": ["anna"], "flag": {"colour": "red"}}, "first")
        tree = await apply(api, {"ports": ["mainz", "basel"]}, "second")
        assert sorted(tree["spec"]["ports"]) == ["basel", "mainz"]
        assert owned(tree, "second") == {"spec.ports[=basel]", "spec.ports[=mainz]"}
        assert owned(tree, "first") == {"spec.ports[=basel]", "spec.crew", "spec.flag"}
        tree = await apply(api, {"ports": ["mainz"]}, "second")
        assert sorted(tree["spec"]["ports"]) == ["basel", "mainz"]

        answer = await send(api, barge({"crew": ["berta"], "flag": {"stripes": 3}}), "second")
        assert failure(answer)[2] == (
            'Apply failed with 2 conflicts: conflicts with "first":\n- .spec.crew\n- .spec.flag'
        )
        tree = await apply(api, {"crew": ["berta"], "flag": {"stripes": 3}}, "second", force="true")
        assert tree["spec"]["crew"] == ["berta"]
        assert tree["spec"]["flag"]["stripes"] == 3
        assert tree["spec"]["flag"].get("colour", "") == ""
        assert owned(tree, "first") == {"spec.ports[=basel]"}


@walk
async def test_metadata_is_applied_too():
    api, _, _ = canal()
    async with api:
        await send(api, barge({}, labels={"a": "1", "b": "1"}, finalizers=["x.example.com/a"]), "first")
        answer = await send(api, barge({}, labels={"c": "1"}, finalizers=["x.example.com/b"]), "second")
        metadata = answer.json["metadata"]
        assert metadata["labels"] == {"a": "1", "b": "1", "c": "1"}
        assert sorted(metadata["finalizers"]) == ["x.example.com/a", "x.example.com/b"]
        answer = await send(api, barge({}, labels={"b": "1"}), "first")
        assert answer.json["metadata"]["labels"] == {"b": "1", "c": "1"}
        assert answer.json["metadata"]["finalizers"] == ["x.example.com/b"]
        answer = await send(api, barge({}, labels={"c": "2"}), "first")
        assert failure(answer)[2].endswith('conflict with "second": .metadata.labels.c')


@walk
async def test_a_dry_run_says_what_would_be_and_changes_nothing():
    api, _, backend = canal()
    async with api:
        before = await backend.current_rev()
        answer = await send(api, barge({"cargo": "coal"}), dryRun="All")
        assert (answer.status, answer.json["spec"]) == (201, {"cargo": "coal"})
        assert (await api.get(ONE)).status == 404
        first = await apply(api, {"cargo": "coal"})
        would = await apply(api, {"cargo": "ore"}, dryRun="All")
        assert would["spec"] == {"cargo": "ore"}
        assert would["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        assert (await send(api, barge({"cargo": "tin"}), "other", dryRun="All")).status == 409
        assert (await api.get(ONE)).json == first
        assert await backend.current_rev() == before + 1


@walk
async def test_resource_version_and_uid_are_preconditions():
    api, _, _ = canal()
    async with api:
        answer = await send(api, barge({"cargo": "coal"}, uid="7e3f"))
        assert failure(answer) == (
            409,
            "Conflict",
            'Operation cannot be fulfilled on barges.apply.example.com "one": uid mismatch: the provided object '
            "specified uid 7e3f, and no existing object was found",
        )
        first = await apply(api, {"cargo": "coal"})
        version, uid = first["metadata"]["resourceVersion"], first["metadata"]["uid"]
        answer = await send(api, barge({"cargo": "ore"}, resourceVersion="1"))
        code, reason, message = failure(answer)
        assert (code, reason) == (409, "Conflict")
        assert "the object has been modified" in message
        assert (await send(api, barge({"cargo": "ore"}, resourceVersion=version, uid=uid))).status == 200
        assert (await send(api, barge({"cargo": "tin"}, resourceVersion=version))).status == 409
        assert (await send(api, barge({"cargo": "tin"}, uid="another"))).status in (409, 422)
        assert (await api.get(ONE)).json["spec"]["cargo"] == "ore"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"metadata": {"name": "two"}},
            "the name of the object (two) does not match the name on the URL (one)",
        ),
        (
            {"metadata": {"name": "one", "namespace": "other"}},
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ({"kind": "Ship"}, "invalid object type: apply.example.com/v1, Kind=Ship"),
        ({"kind": None}, "invalid object type: apply.example.com/v1, Kind="),
        ({"apiVersion": None}, "invalid object type: /, Kind=Barge"),
        (
            {"apiVersion": V1BETA1},
            "Incorrect version specified in apply patch. Specified patch version: apply.example.com/v1beta1, "
            "expected: apply.example.com/v1",
        ),
        (
            {"metadata": {"name": "one", "managedFields": []}},
            "metadata.managedFields must be nil",
        ),
        (
            {"metadata": {"name": "one", "managedFields": [{"manager": "m"}]}},
            "metadata.managedFields must be nil",
        ),
        (
            {"spec": {"sails": 1}},
            "failed to create typed patch object (/one; apply.example.com/v1, Kind=Barge): "
            ".spec.sails: field not declared in schema",
        ),
        (
            {"spec": {"cargo": 7, "holds": [{"name": "a", "mice": 1}]}},
            "failed to create typed patch object (/one; apply.example.com/v1, Kind=Barge): errors:\n"
            "  .spec.cargo: expected string, got int64\n"
            '  .spec.holds[name="a"].mice: field not declared in schema',
        ),
        (
            {"spec": {"ports": ["a", "b", "a"]}},
            "failed to create typed patch object (/one; apply.example.com/v1, Kind=Barge): "
            '.spec.ports: duplicate entries for key [="a"]',
        ),
        (
            {"spec": {"holds": [{"name": "a"}, {"name": "a"}]}},
            "failed to create typed patch object (/one; apply.example.com/v1, Kind=Barge): "
            '.spec.holds: duplicate entries for key [name="a"]',
        ),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_a_configuration_that_cannot_be_applied_is_a_bad_request(
    change: dict[str, Any], message: str, there: bool
) -> None:
    @walk
    async def run() -> None:
        api, _, _ = canal()
        async with api:
            if there:
                await apply(api, {"cargo": "coal"})
            answer = await send(api, {**barge({}), **change})
            assert failure(answer) == (400, "BadRequest", message)

    run()


@walk
async def test_a_list_item_without_its_key_is_a_bad_request_that_says_where():
    api, _, _ = canal()
    async with api:
        code, reason, message = failure(await send(api, barge({"holds": [{"tons": 1}]})))
        assert (code, reason) == (400, "BadRequest")
        assert ".spec.holds: element 0: " in message
        assert "name" in message.partition("element 0")[2]


@walk
async def test_values_the_type_refuses_are_invalid():
    api, _, _ = canal()
    async with api:
        answer = await send(api, barge({}, labels={"-": "x"}))
        code, reason, message = failure(answer)
        assert (code, reason) == (422, "Invalid")
        assert message.startswith('Barge.apply.example.com "one" is invalid: metadata.labels')
        assert (await api.get(ONE)).status == 404


@walk
async def test_the_manager_must_be_named_and_force_is_only_for_applies():
    api, _, _ = canal()
    async with api:
        answer = await send(api, barge({}), "")
        assert failure(answer) == (
            422,
            "Invalid",
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        )
        await apply(api, {})
        answer = await api.patch(f"{ONE}?force=true", {"spec": {}})
        assert failure(answer)[2].endswith("force: Forbidden: may not be specified for non-apply patch")
        answer = await send(api, barge({}), "x" * 129)
        assert failure(answer)[2].endswith("fieldManager: Too long: may not be more than 128 bytes")
        assert (await send(api, barge({}), "x" * 128)).status == 200
        assert failure(await send(api, barge({}), "a%0Ab"))[2].endswith("invalid character U+000A (at position 1)")


TWICE = {
    "json": b'{"apiVersion": "apply.example.com/v1", "kind": "Barge", "metadata": {"name": "one"}, '
    b'"spec": {"cargo": "coal", "cargo": "ore"}}',
    "yaml": b"apiVersion: apply.example.com/v1\nkind: Barge\nmetadata: {name: one}\n"
    b"spec:\n  cargo: coal\n  cargo: ore\n",
}


@pytest.mark.parametrize("form", TWICE)
def test_a_field_given_twice_is_refused_warned_of_or_ignored(form: str) -> None:
    @walk
    async def run() -> None:
        api, _, _ = canal()
        async with api:
            code, reason, message = failure(await send(api, TWICE[form], fieldValidation="Strict"))
            assert (code, reason) == (400, "BadRequest")
            line = {"json": 1, "yaml": 6}[form]
            assert message == (
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
                f'  line {line}: key "cargo" already set in map'
            )
            assert (await api.get(ONE)).status == 404
            answer = await send(api, TWICE[form])
            assert answer.status == 201
            assert len(answer.warnings) == 1
            assert answer.warnings[0] == f'line {line}: key "cargo" already set in map'
            assert answer.json["spec"] == {"cargo": "ore"}
            answer = await send(api, TWICE[form], fieldValidation="Ignore")
            assert (answer.status, answer.warnings) == (200, [])

    run()


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_an_undeclared_field_is_refused_whatever_the_validation(validation: str) -> None:
    @walk
    async def run() -> None:
        api, _, _ = canal()
        async with api:
            answer = await send(api, barge({"sails": 1}), fieldValidation=validation)
            assert answer.status == 400
            assert ".spec.sails: field not declared in schema" in answer.json["message"]

    run()


@pytest.mark.parametrize(
    "data",
    [
        b"a: [",
        b"",
        b"[]",
        b"null",
        b"just text",
        b"{",
        b'{"metadata": 1}',
        b"\xff\xfe",
        b"--- \n...\n---\n",
        b"a: &a [*a]",
        b"a: 1\n---\nb: 2\n",
        b"{}",
        b'{"apiVersion": 1, "kind": [], "metadata": {}}',
    ],
)
def test_what_is_no_configuration_is_a_bad_request(data: bytes) -> None:
    @walk
    async def run() -> None:
        api, _, _ = canal()
        async with api:
            answer = await send(api, data)
            code, reason, message = failure(answer)
            assert (code, reason) == (400, "BadRequest")
            assert message
            assert "\n\n" not in message

    run()


@walk
async def test_status_is_applied_where_status_is():
    api, _, _ = canal()
    async with api:
        tree = (await send(api, {**barge({"cargo": "coal"}), "status": {"phase": "no"}})).json
        assert "phase" not in tree.get("status", {})
        assert owned(tree, "m") == {"spec.cargo"}
        status = {**barge({"cargo": "ore"}), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        answer = await send(api, status, "controller", f"{ONE}/status")
        assert answer.status == 200
        tree = answer.json
        assert tree["spec"]["cargo"] == "coal"
        assert tree["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
        assert tree["metadata"]["generation"] == 1
        assert ("controller", "Apply/status") in entries(tree)
        assert owned(tree, "controller") == {
            "status.conditions[Ready]",
            "status.conditions[Ready].type",
            "status.conditions[Ready].status",
        }
        second = {**barge(), "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        answer = await send(api, second, "other", f"{ONE}/status")
        assert failure(answer)[2] == (
            'Apply failed with 1 conflict: conflict with "controller" with subresource "status": '
            '.status.conditions[type="Ready"].status'
        )
        answer = await send(api, {**barge(), "status": {}}, "controller", f"{ONE}/status")
        assert not answer.json.get("status", {}).get("conditions")


@walk
async def test_a_subresource_is_not_created_by_an_apply():
    api, _, _ = canal()
    async with api:
        answer = await send(api, {**barge(), "status": {"phase": "x"}}, where=f"{ONE}/status")
        assert failure(answer)[:2] == (404, "NotFound")
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2}}
        assert failure(await send(api, scale, where=f"{ONE}/scale"))[:2] == (404, "NotFound")


@walk
async def test_a_scale_is_applied_to_the_object_it_scales():
    api, _, _ = canal()
    async with api:
        await apply(api, {"cargo": "coal"})
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 2}}
        answer = await send(api, scale, "scaler", f"{ONE}/scale")
        assert (answer.status, answer.json["spec"]) == (200, {"replicas": 2})
        tree = (await api.get(ONE)).json
        assert tree["spec"] == {"cargo": "coal", "replicas": 2}
        assert ("scaler", "Apply/scale") in entries(tree)
        assert owned(tree, "scaler") == {"spec.replicas"}
        answer = await send(api, barge({"cargo": "coal", "replicas": 3}))
        assert failure(answer)[2] == (
            'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale": .spec.replicas'
        )


@walk
async def test_the_version_of_the_url_is_the_version_of_the_configuration():
    api, _, _ = canal()
    async with api:
        await apply(api, {"cargo": "coal", "holds": [{"name": "fore"}]}, "first")
        old = barge({"captain": "Anna"}, api_version=V1BETA1)
        answer = await send(api, old, "second", OLD_ONE)
        assert (answer.status, answer.json["spec"]) == (200, {"load": "coal", "captain": "Anna"})
        tree = (await api.get(ONE)).json
        assert tree["spec"]["holds"] == [{"name": "fore", "tons": 1}]
        by = {entry["manager"]: entry["apiVersion"] for entry in tree["metadata"]["managedFields"]}
        assert by == {"first": V1, "second": V1BETA1}
        answer = await send(api, barge({"load": "ore"}, api_version=V1BETA1), "second", OLD_ONE)
        code, _, message = failure(answer)
        assert code == 409
        assert 'conflict with "first": .spec.' in message
        answer = await send(api, barge({"load": "ore"}, api_version=V1BETA1), "second", OLD_ONE, force="true")
        assert answer.json["spec"] == {"load": "ore"}
        tree = (await api.get(ONE)).json
        assert tree["spec"]["cargo"] == "ore"
        assert "spec.cargo" not in owned(tree, "first")
        assert owned(tree, "second") == {"spec.load"}


class Loads(Admission[Barge]):
    """Sets what nobody asked for, and changes what was."""

    async def mutate(self, review: Review[Barge]) -> None:
        review.object.metadata.labels["seen"] = "yes"
        if review.object.spec.cargo == "contraband":
            review.object.spec.cargo = "tea"


@walk
async def test_what_admission_changes_is_stored_and_applying_again_is_no_change():
    api, clock, backend = canal(Barge, admission=[Loads()])
    async with api:
        first = await apply(api, {"cargo": "contraband"})
        assert first["spec"] == {"cargo": "tea"}
        assert first["metadata"]["labels"] == {"seen": "yes"}
        assert owned(first, "m") == {"spec.cargo"}
        before = await backend.current_rev()
        clock.advance(60)
        assert await apply(api, {"cargo": "contraband"}) == first
        assert await backend.current_rev() == before


CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "buoys.apply.example.com"},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {"plural": "buoys", "kind": "Buoy", "singular": "buoy", "listKind": "BuoyList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "depth": {"type": "integer", "default": 3},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "lights": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}, "colour": {"type": "string"}},
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
                "subresources": {"status": {}},
            }
        ],
    },
}
BUOY = f"/apis/{GROUP}/v1/buoys/red"


def buoy(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "Buoy", "metadata": {"name": "red"}, "spec": spec}


@walk
async def test_a_resource_that_a_definition_declares_is_applied_like_any_other():
    api, _, _ = canal(Served(parse(CRD)))
    async with api:
        first = await send(api, buoy(lights=[{"name": "a", "colour": "red"}], free={"any": {"thing": [1]}}), where=BUOY)
        assert first.status == 201
        assert first.json["spec"]["depth"] == 3
        assert owned(first.json, "m") == {
            "spec.free.any",
            "spec.free.any.thing",
            "spec.lights[a]",
            "spec.lights[a].name",
            "spec.lights[a].colour",
        }
        second = await send(api, buoy(lights=[{"name": "b"}], free={"more": 1}), "other", BUOY)
        assert [light["name"] for light in second.json["spec"]["lights"]] == ["a", "b"]
        assert second.json["spec"]["free"] == {"any": {"thing": [1]}, "more": 1}
        third = await send(api, buoy(lights=[{"name": "a"}]), where=BUOY)
        assert third.json["spec"] == {"depth": 3, "lights": [{"name": "a"}, {"name": "b"}], "free": {"more": 1}}
        answer = await send(api, buoy(free={"more": 2}), where=BUOY)
        assert failure(answer)[2] == 'Apply failed with 1 conflict: conflict with "other": .spec.free.more'
        assert failure(await send(api, buoy(depht=1), where=BUOY))[2].endswith(
            ".spec.depht: field not declared in schema"
        )


class Echo(Resource, group=GROUP, version="v1", plural="echoes", scope="Cluster"):
    """What comes back."""

    text: str = ""


class Echoes(VirtualCollection[Echo]):
    """Nothing is kept."""

    async def get(self, name: str, ctx: Context) -> Echo | None:
        return Echo(text=name)

    async def update(self, new: Echo, expected_version: str, ctx: Context) -> Echo:
        return new


APPLY_CBOR = "application/apply-patch+cbor"
SERVED = {
    "barges": [JSON_PATCH, MERGE, STRATEGIC, APPLY, APPLY_CBOR],
    "buoys": [JSON_PATCH, MERGE, APPLY, APPLY_CBOR],
    "echoes": [JSON_PATCH, MERGE, STRATEGIC, APPLY, APPLY_CBOR],
}


@walk
async def test_every_patch_that_is_served_is_advertised_and_every_other_refused():
    api, _, _ = canal(Barge, Served(parse(CRD)), Echoes)
    async with api:
        document = (await api.get(f"/openapi/v3/apis/{GROUP}/v1")).json
        names = {"barges": "one", "buoys": "red", "echoes": "e"}
        for plural, types in SERVED.items():
            where = f"/apis/{GROUP}/v1/{plural}"
            if plural == "barges":
                where = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/{plural}"
            content = document["paths"][f"{where}/{{name}}"]["patch"]["requestBody"]["content"]
            assert list(content) == types
            target = f"{where}/{names[plural]}".replace("{namespace}", "default")
            text = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
                types
            )
            for media in (JSON_PATCH, MERGE, STRATEGIC, APPLY):
                answer = await api.patch(f"{target}?fieldManager=m", {}, media)
                if media not in types:
                    assert failure(answer) == (415, "UnsupportedMediaType", text)
                else:
                    assert answer.status != 415


@walk
async def test_two_managers_lose_nothing_to_each_other():
    api, clock, _ = canal()
    async with api:
        mine: dict[str, dict[str, Any]] = {"left": {}, "right": {}}
        for number in range(200):
            manager, key = (("left", "l"), ("right", "r"))[number % 2]
            mine[manager] = {
                "notes": {f"{key}{number % 7}": str(number), f"{key}x": str(number // 3)},
                "holds": [{"name": f"{key}{number % 5}", "tons": number}, {"name": key, "tons": 2}],
                "ports": [f"{key}{number % 3}"],
                **({"cargo": str(number)} if key == "l" else {"captain": str(number)}),
            }
            clock.advance(0.7)
            tree = await apply(api, mine[manager], manager)
        spec, left, right = tree["spec"], mine["left"], mine["right"]
        assert spec["notes"] == {**left["notes"], **right["notes"]}
        assert sorted(spec["ports"]) == sorted(left["ports"] + right["ports"])
        by_name = {hold["name"]: hold for hold in left["holds"] + right["holds"]}
        assert {hold["name"]: hold for hold in spec["holds"]} == by_name
        assert (spec["cargo"], spec["captain"]) == (left["cargo"], right["captain"])
        assert entries(tree) == [("left", "Apply"), ("right", "Apply")]
        assert json.dumps(tree) == json.dumps((await api.get(ONE)).json)


@walk
async def test_applies_at_the_same_time_lose_nothing_either():
    api, _, _ = canal()
    async with api:
        names = [f"m{number}" for number in range(8)]
        for turn in range(10):
            answers = await asyncio.gather(*(send(api, barge({"notes": {name: str(turn)}}), name) for name in names))
            assert all(answer.status in (200, 201) for answer in answers)
        tree = (await api.get(ONE)).json
        assert tree["spec"]["notes"] == dict.fromkeys(names, "9")
        assert sorted(entries(tree)) == [(name, "Apply") for name in names]
        assert all(owned(tree, name) == {f"spec.notes.{name}"} for name in names)


@walk
async def test_who_is_second_to_create_changes_what_the_first_created():
    api, _, backend = canal()
    real, ahead = backend.put, [True]

    async def put(key: str, value: bytes, *, expect: int, **rest: Any) -> Any:
        if key.startswith("/registry/") and ahead and ahead.pop():
            first = await send(api, barge({"captain": "Anna"}), "first")
            assert first.status == 201
        return await real(key, value, expect=expect, **rest)

    backend.put = put  # type: ignore[method-assign]
    async with api:
        answer = await send(api, barge({"cargo": "coal"}), "second")
        assert answer.status == 200, answer.body
        assert answer.json["spec"] == {"cargo": "coal", "captain": "Anna"}
        assert entries(answer.json) == [("first", "Apply"), ("second", "Apply")]
        backend.put = real  # type: ignore[method-assign]
        assert (await send(api, barge({"captain": "Berta"}), "second")).status == 409
