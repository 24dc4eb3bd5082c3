"""What expressions compute becomes a patch: by names of types, within bounds, applied by the object's schema."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.patch.apply.schema import object_type
from oarlock.policy.admission.expressions import CompiledExpression
from oarlock.policy.admission.mutations import (
    MAX_OBJECT_BYTES,
    CompiledMutatingPolicy,
    MutationFailed,
    MutationTooLarge,
    compile_mutating_policy,
    mutated,
)
from oarlock.schema.cel.expression import CALL_LIMIT
from oarlock.schema.structural import nodes as structural

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}
TYPE = object_type(structural.parse(SCHEMA))
TREE: dict[str, Any] = {"apiVersion": "e/v1", "kind": "W", "metadata": {"name": "a"}, "spec": {"size": 1}}


def compiled(kind: str, expression: str) -> CompiledMutatingPolicy:
    field = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}[kind]
    mutation = {"patchType": kind, field: {"expression": expression}}
    return compile_mutating_policy({"metadata": {"name": "p"}, "spec": {"mutations": [mutation]}})


def after(kind: str, expression: str, tree: dict[str, Any] = TREE, limit: int = 3 * 1024 * 1024) -> Any:
    policy = compiled(kind, expression)
    assert not policy.faults, policy.faults
    made: CompiledExpression = policy.mutations[0].expression
    value, _ = made.program.run(tuple(tree if name == "object" else None for name in made.names), CALL_LIMIT)
    return mutated(kind, value, tree, TYPE, limit)


def test_an_apply_configuration_is_merged_by_the_schema() -> None:
    tree = {**TREE, "spec": {"parts": [{"name": "a", "n": 1}, {"name": "b"}]}}
    parts = "[Object.spec.parts{name: 'b', n: 2}, Object.spec.parts{name: 'c'}]"
    made = after("ApplyConfiguration", f"Object{{spec: Object.spec{{size: 2, parts: {parts}}}}}", tree)
    assert made["spec"] == {"parts": [{"name": "a", "n": 1}, {"name": "b", "n": 2}, {"name": "c"}], "size": 2}
    assert tree["spec"] == {"parts": [{"name": "a", "n": 1}, {"name": "b"}]}


def test_a_mutation_that_changes_nothing_returns_the_object() -> None:
    assert after("ApplyConfiguration", "Object{spec: Object.spec{size: 1}}") is TREE
    assert after("JSONPatch", "[JSONPatch{op: 'test', path: '/spec/size', value: 2}]") is TREE


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("Object{spec: Object.spec{tags: ['x']}}", "may not mutate atomic arrays, maps or structs: .spec.tags"),
        ("Object{spec: Object.spec{free: {'a': {'b': [1]}}}}", "maps or structs: .spec.free.a.b"),
        ("Object{spec: Object.spec{sise: 1}}", ".spec.sise: field not declared in schema"),
        ("Object{spec: Object.wrong{}}", 'unexpected type name "Object.wrong", expected "Object.spec"'),
        ("Object{spec: {'parts': [Object.spec.part{}]}}", 'unexpected type name "Object.spec.part"'),
        ("Object{spec: Object.spec{free: {1: 'a'}}}", "a key of type int, not string"),
        ("Object{spec: Object.spec{free: {'a': int}}}", "can't have a value of type type"),
    ],
)
def test_what_an_apply_configuration_may_not_have(expression: str, why: str) -> None:
    with pytest.raises(MutationFailed) as error:
        after("ApplyConfiguration", expression)
    assert why in str(error.value)


def test_fields_with_a_question_mark_are_left_out_if_there_is_nothing() -> None:
    assert after("ApplyConfiguration", "Object{?spec: object.?nothing}") is TREE


def test_a_json_patch_has_typed_objects_in_lists() -> None:
    value = "[Object.spec.parts{name: 'a'}, Object.spec.parts{name: 'b'}]"
    made = after("JSONPatch", f"[JSONPatch{{op: 'add', path: '/spec/parts', value: {value}}}]")
    assert made["spec"]["parts"] == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ("op: 'remove', path: '/spec/no'", "Unable to remove nonexistent key: no: missing value"),
        ("op: 'remove', path: '/spec/a~1b/c'", "doc is missing path"),
        ("op: 'add', path: 'no pointer', value: 1", "doc is missing path"),
        ("op: 'jump', path: '/spec'", "unexpected kind: jump"),
        ("op: 'replace', path: '/metadata', value: 1", "makes something else of the object"),
        ("op: 'add', path: '/spec/size', value: 1.0/0.0", "can't have the number inf"),
    ],
)
def test_a_json_patch_that_cannot_be_applied_says_why(operation: str, why: str) -> None:
    with pytest.raises(MutationFailed) as error:
        after("JSONPatch", f"[JSONPatch{{{operation}}}]")
    assert why in str(error.value)


def test_kind_and_version_stay() -> None:
    assert after("JSONPatch", "[JSONPatch{op: 'replace', path: '/kind', value: 'X'}]")["kind"] == "W"


def test_a_small_expression_makes_no_large_patch() -> None:
    shared = "[" + ",".join(["x"] * 100) + "]"
    for _ in range(3):
        shared = f"[{shared}].map(x, {shared})[0]"
    huge = f"[1].map(x, {shared})"
    with pytest.raises(MutationTooLarge):
        after("JSONPatch", f"[JSONPatch{{op: 'add', path: '/spec/free', value: {huge}}}]", limit=32 * 1024)


def test_an_object_does_not_grow_by_copies() -> None:
    tree = {**TREE, "spec": {"free": {"a": "x" * (MAX_OBJECT_BYTES // 3)}}}
    copies = ", ".join(f"JSONPatch{{op: 'copy', from: '/spec/free/a', path: '/spec/free/b{n}'}}" for n in range(3))
    with pytest.raises(MutationFailed):
        after("JSONPatch", f"[{copies}]", tree)


def test_expressions_have_the_type_of_their_patch() -> None:
    assert compiled("ApplyConfiguration", "Object.spec{}").faults[0].text == (
        "must evaluate to Object but got Object.spec"
    )
    assert "expected type of field 'op' is 'string' but provided type is 'int'" in (
        compiled("JSONPatch", "[JSONPatch{op: 1}]").faults[0].text
    )
    assert "undeclared reference to 'Objects'" in compiled("ApplyConfiguration", "Objects{}").faults[0].text
    assert not compiled("ApplyConfiguration", "true ? Object{} : Object{a: Object{}.b}").faults
