"""Rules on classes and fields: refused at import when they can't be run, published, and checked on every write."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any

import pytest

from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import ResourceDefinition, Rule
from oarlock.schema.types.declaring import RuleError
from oarlock.schema.types.definitions import definition_of
from oarlock.schema.types.markers import MaxItems, MaxLength
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model


class Port(Model):
    name: Annotated[str, MaxLength(20)]
    number: int


class BoatSpec(Model):
    crew: Annotated[int, Rule("self > 0", "a boat needs a crew")] = 1
    ports: Annotated[list[Port], MaxItems(100), Rule("self.all(p, self.exists_one(q, q.name == p.name))")] = []
    owner: str | None = None


class Boat(
    Resource,
    group="wardle.example.com",
    version="v1",
    rules=[
        Rule("self.spec.crew >= oldSelf.spec.crew", "the crew cannot shrink", field_path=".spec.crew"),
        Rule(
            "!has(self.spec.owner) || self.spec.owner != self.metadata.name",
            message_expression="'%s owns itself'.format([self.metadata.name])",
            reason="FieldValueForbidden",
        ),
    ],
):
    """A boat."""

    spec: BoatSpec


@pytest.fixture(scope="module")
def boats() -> ResourceDefinition:
    return definition_of(Boat)


@pytest.fixture(scope="module")
def compiled(boats: ResourceDefinition) -> CompiledVersion:
    return compile_version(boats, "v1")


def boat(**spec: Any) -> dict[str, Any]:
    whole = {"crew": 2, **spec}
    return {"apiVersion": "wardle.example.com/v1", "kind": "Boat", "metadata": {"name": "a"}, "spec": whole}


def said(compiled: CompiledVersion, new: Any, old: Any = None) -> list[str]:
    return [error.message for error in compiled.validate(new, old)]


def test_rules_are_published(boats: ResourceDefinition) -> None:
    schema = boats.version("v1").schema
    assert schema["x-kubernetes-validations"][0] == {
        "rule": "self.spec.crew >= oldSelf.spec.crew",
        "message": "the crew cannot shrink",
        "fieldPath": ".spec.crew",
    }
    crew = schema["properties"]["spec"]["properties"]["crew"]
    assert crew["x-kubernetes-validations"] == [{"rule": "self > 0", "message": "a boat needs a crew"}]


def test_a_good_object_passes(compiled: CompiledVersion) -> None:
    assert said(compiled, boat(ports=[{"name": "a", "number": 1}, {"name": "b", "number": 1}], owner="me")) == []


def test_every_broken_rule_is_told(compiled: CompiledVersion) -> None:
    twice = [{"name": "a", "number": 1}, {"name": "a", "number": 2}]
    assert said(compiled, boat(crew=0, ports=twice, owner="a")) == [
        "<nil>: Forbidden: a owns itself",
        "spec.crew: Invalid value: 0: a boat needs a crew",
        "spec.ports: Invalid value: failed rule: self.all(p, self.exists_one(q, q.name == p.name))",
    ]


def test_a_rule_about_the_old_object_runs_on_updates_only(compiled: CompiledVersion) -> None:
    assert said(compiled, boat(crew=1)) == []
    assert said(compiled, boat(crew=1), boat(crew=2)) == ["spec.crew: Invalid value: the crew cannot shrink"]


def test_what_has_not_changed_is_forgiven(compiled: CompiledVersion) -> None:
    old = boat(crew=0, owner="x")
    assert said(compiled, boat(crew=0, owner="y"), old) == []
    assert said(compiled, boat(crew=-1, owner="y"), old) == [
        "spec.crew: Invalid value: the crew cannot shrink",
        "spec.crew: Invalid value: -1: a boat needs a crew",
    ]


def test_rules_wait_until_the_structure_is_right(compiled: CompiledVersion) -> None:
    tree = boat(crew=0)
    tree["spec"]["ports"] = "none"
    found = said(compiled, tree)
    assert "spec.ports in body must be of type array" in found[0]
    assert found[-1].startswith("<nil>: Invalid value: null: some validation rules were not checked")
    assert not any("crew" in text for text in found)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("self.spec.crew >", "<input>:1:17: Syntax error"),
        ("self.spec.crw > 1", "<input>:1:10: undefined field 'crw'\n | self.spec.crw > 1\n | .........^"),
        ("self.spec.crew == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.spec.crew + 1", "cel expression must evaluate to a bool"),
        ("self.spec.owner.matches('(')", "invalid matches argument"),
        ("nonsense(self)", "undeclared reference to 'nonsense'"),
    ],
)
def test_a_bad_rule_fails_when_the_class_is_made(rule: str, text: str) -> None:
    with pytest.raises(RuleError) as refused:

        class Broken(Resource, group="wardle.example.com", version="v1", rules=[Rule(rule)]):
            spec: BoatSpec

    assert text in str(refused.value)
    assert "test_rules_of_declared_classes.py:" in str(refused.value)


def test_a_bad_rule_on_a_field_fails_too() -> None:
    class Spec(Model):
        size: Annotated[str, Rule("self > 1")]

    with pytest.raises(RuleError, match=r"properties\[spec\]\.properties\[size\].*'_>_' applied to '\(string, int\)'"):

        class Broken(Resource, group="wardle.example.com", version="v1"):
            spec: Spec


def test_a_rule_that_could_cost_too_much_names_what_has_no_bound() -> None:
    class Spec(Model):
        tags: list[str] = []

    with pytest.raises(RuleError) as refused:

        class Slow(
            Resource,
            group="wardle.example.com",
            version="v1",
            rules=[Rule("self.spec.tags.all(t, self.spec.tags.exists_one(u, t == u))")],
        ):
            spec: Spec

    assert "estimated rule cost exceeds budget by factor of more than 100x" in str(refused.value)
    assert "without a bound: spec.tags (maxItems), spec.tags[] (maxLength)" in str(refused.value)


def test_nothing_is_loaded_while_there_is_no_rule() -> None:
    code = "import sys, oarlock.schema.types.views; print('oarlock.schema.cel.rules' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
