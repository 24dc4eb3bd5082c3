"""``oarlock model``: classes for definitions that exist, which publish the same schemas again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from crd_kit import definition, established, version

from oarlock import APIServer, Model, Quantity, Resource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.cli.doctor.cluster import ClusterView
from oarlock.cli.modelling.command import (
    GVK,
    classes_for,
    classes_in,
    definitions_in_cluster,
    definitions_in_file,
    definitions_of,
    differences,
)
from oarlock.schema.crd import read_definition
from oarlock.server.command import CommandError
from oarlock.testing import InMemory

CRDS = sorted((Path(__file__).parent / "crds").glob("*.yaml"))
OTHERS = os.environ.get("OARLOCK_CRDS", "")
"""A folder of definitions that others have written."""
CONVERSION = "conversion keeps the fields"
TOLD = (CONVERSION, "/status", "subresources", "a list whose items have no schema", "items: nothing became")
"""What classes can't say: conversions, a version with /status and no such field, lists of anything."""


def read(file: Path) -> tuple[list[str], Any]:
    told: list[str] = []
    return told, definitions_in_file(str(file), lambda path, what: told.append(f"{path}: {what}"))


def formatted(source: str, *options: str) -> bool:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--check", *options, "-"]
    return subprocess.run(command, input=source, text=True, capture_output=True).returncode == 0


@pytest.mark.parametrize("file", CRDS, ids=lambda file: file.stem)
def test_the_classes_publish_the_schemas_they_were_made_of(file: Path):
    _, definitions = read(file)
    source, told, right = classes_for(definitions)
    assert right
    assert [line for line in told if CONVERSION not in line] == []
    assert formatted(source)
    assert formatted(source, "--line-length=120")


@pytest.mark.slow
def test_type_checkers_accept_the_classes(tmp_path: Path):
    for file in CRDS:
        (tmp_path / f"{file.stem}.py").write_text(classes_for(read(file)[1])[0])
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *map(str, tmp_path.glob("*.py"))]
    done = subprocess.run(command, text=True, capture_output=True, cwd=root, env={**os.environ, "MYPYPATH": "src"})
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.skipif(not OTHERS, reason="OARLOCK_CRDS names no folder of definitions")
def test_definitions_of_others_come_back():
    lost = {}
    for file in sorted(Path(OTHERS).glob("*.yaml")):
        told, definitions = read(file)
        source, more, right = classes_for(definitions)
        unknown = [line for line in more if not any(known in line for known in TOLD)]
        if unknown or not right or not formatted(source):
            lost[file.name] = [*told, *more]
    assert lost == {}


def test_what_a_class_cannot_say_is_told_with_its_path(oarlock, folder: Path):
    fields = {"items": {"type": "array", "items": {"type": "string"}}, "spec": {"type": "object", "properties": {}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": fields}}
    odd = version(schema=schema, subresources={"status": {}})
    odd["additionalPrinterColumns"] = [{"name": "Cup", "type": "string", "jsonPath": ".status.cup"}]
    tree = definition("cups", "Cup", odd, version("v2", storage=False), conversion={"strategy": "Webhook"})
    tree["spec"]["names"]["listKind"] = "Cupboard"
    (folder / "cups.yaml").write_text(yaml.safe_dump(tree))
    done = oarlock("model", "cups.yaml")
    assert done.returncode == 0
    told = done.stderr.splitlines()
    assert told[0] == "not in it: Cup: what the webhook does that converts between its versions"
    for line in (
        "Cup: its lists are called CupList, not Cupboard",
        "Cup v1: it has /status and no status: a class needs the field",
        "Cup v1, column Cup: '.status.cup' leads nowhere at 'status'",
        "Cup v1.items: is missing",
        "Cup v2: conversion keeps the fields that v1 has by the same names: see to_hub, from_hub",
    ):
        assert f"not in it: {line}" in told


def test_a_mistake_that_no_class_is_allowed_ends_with_an_error(oarlock, folder: Path):
    schema = {
        "openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "default": 1}}}
    }
    (folder / "bad.json").write_text(json.dumps(definition("bads", "Bad", version(schema=schema))))
    done = oarlock("model", "bad.json")
    assert done.returncode == 1
    assert "class Bad(" in done.stdout
    assert "a mistake that a class isn't allowed" in done.stderr


def test_mistakes_are_told_in_one_line(oarlock, folder: Path):
    (folder / "none.yaml").write_text("kind: ConfigMap\n")
    (folder / "half.yaml").write_text("kind: CustomResourceDefinition\nspec: {group: a.b}\n")
    for file, why in (
        ("none.yaml", "contains neither a CustomResourceDefinition"),
        ("half.yaml", "spec.names: Required value"),
        ("gone.yaml", "No such file"),
    ):
        done = oarlock("model", file)
        assert done.returncode != 0
        assert why in done.stderr
        assert done.stderr.count("\n") == 1


class CupSpec(Model):
    """What is wanted."""

    size: int = 1
    water: Quantity | None = None


class Cup(
    Resource, group="cups.example.com", version="v1", short_names=["cp"], scope="Cluster", status_subresource=True
):
    """A cup."""

    spec: CupSpec
    status: CupSpec | None = None


@pytest.mark.anyio
async def test_classes_for_a_definition_in_a_cluster_are_those_that_its_typed_client_takes():
    async with InMemory(ControlPlane()) as api:
        await established(api, definition())
        definitions = await definitions_in_cluster(ClusterView(api.client()), "plains.names.example.com", never)
        source, told, _ = classes_for(definitions)
        assert told == []
        made = classes_in(source)
        plain = made["Plain"](metadata={"name": "a", "namespace": "default"}, spec=made["PlainSpec"](a="b", n=3))
        created = await api.client().create(plain)
        assert (created.spec.a, created.spec.n) == ("b", 3)


@pytest.mark.anyio
async def test_classes_are_made_of_what_a_server_publishes_where_there_is_no_definition():
    async with InMemory(APIServer(serve=[Cup])) as api:
        view = ClusterView(api.client())
        (found,) = await definitions_in_cluster(view, "cups.cups.example.com", never)
        assert (found.names.short_names, found.scope, found.version("v1").status) == (("cp",), "Cluster", True)
        source, told, right = classes_for([found])
        assert (told, right) == ([], True)
        assert [*differences([found], classes_in(source))] == []
        assert "water: Quantity | None = None" in source
        with pytest.raises(CommandError, match="serves no such resource"):
            await definitions_in_cluster(view, "pots.cups.example.com", never)


@pytest.mark.anyio
async def test_classes_for_kinds_of_kubernetes():
    async with InMemory(ControlPlane()) as api:
        (found,) = await definitions_in_cluster(ClusterView(api.client()), "services", never)
        source, told, right = classes_for([found])
        assert (told, right) == ([], True)
        assert formatted(source)
        assert "class ServiceSpec(Model):" in source


def test_a_type_that_contains_itself_ends_in_free_json_which_is_told():
    tree = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/components/schemas/Tree"}, "metadata": {"type": "object"}},
    }
    gvk = {"group": "t.example.com", "version": "v1", "kind": "Root"}
    path = "/apis/t.example.com/v1/roots"
    document = {
        "openapi": "3.0.0",
        "components": {"schemas": {"Tree": tree, "Root": {**tree, GVK: [gvk]}}},
        "paths": {path: {}, f"{path}/{{name}}": {"get": {GVK: gvk}}},
    }
    told: list[str] = []
    (found,) = definitions_of(document, lambda path, what: told.append(f"{path}: {what}"))
    assert told == ["Root v1.tree.tree: Tree contains itself: it is free JSON there"]
    assert classes_for([found])[1:] == ([], True)


def never(path: str, what: str) -> None:
    raise AssertionError(f"{path}: {what}")


def test_read_definition_is_what_crd_prints():
    (found,) = read(CRDS[0])[1]
    assert read_definition(yaml.safe_load(CRDS[0].read_text())) == found
