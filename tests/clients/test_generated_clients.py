"""Clients that generators write from the documents: what they write is correct, and has a class for each of ours."""

from __future__ import annotations

import asyncio
import compileall
import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

from oarlock import APIServer, Doc, ListMap, Model, Resource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
GROUP = "wardle.example.com"


class Rope(Model):
    """What holds a boat."""

    name: str
    length: int = 3


class FlunderSpec(Model):
    """What is wanted of a flunder."""

    ropes: Annotated[list[Rope], ListMap("name")] = []
    main: Annotated[Rope | None, Doc("The longest.")] = None


class Flunder(Resource, group=GROUP, version="v1"):
    """A flunder."""

    spec: FlunderSpec


def generator(name: str) -> str:
    """A program on the path or beside this Python."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} isn't installed")
    return found


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def document(server: APIServer, name: str, folder: Path) -> Path:
    async def read() -> bytes:
        async with InMemory(server) as api:
            body: bytes = (await api.get(f"/openapi/v3/{name}")).body
            return body

    file = folder / "document.json"
    file.write_bytes(asyncio.run(read()))
    return file


@pytest.fixture
def flunders(tmp_path: Path) -> Path:
    return document(APIServer(serve=[Flunder]), f"apis/{GROUP}/v1", tmp_path)


@pytest.fixture
def deployments(tmp_path: Path) -> Path:
    return document(ControlPlane(), "apis/apps/v1", tmp_path)


def models(file: Path, folder: Path, name: str) -> None:
    """Write a package of pydantic models into a folder."""
    command = (generator("datamodel-codegen"), "--input", str(file), "--input-file-type", "openapi")
    run(*command, "--output", str(folder / name), "--output-model-type", "pydantic_v2.BaseModel")


def test_models_of_declared_classes(flunders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models(flunders, tmp_path, "flunder_models")
    monkeypatch.syspath_prepend(tmp_path)
    made: Any = importlib.import_module("flunder_models.com.example.wardle.v1")
    spec = made.FlunderSpec(ropes=[made.Rope(name="a")], main={"name": "b", "length": 5})
    assert json.loads(spec.model_dump_json()) == {
        "ropes": [{"name": "a", "length": 3}],
        "main": {"name": "b", "length": 5},
    }
    assert made.Flunder(spec=spec).spec.main.length == 5


def test_models_of_the_kinds_of_kubernetes(deployments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models(deployments, tmp_path, "workload_models")
    assert compileall.compile_dir(tmp_path / "workload_models", quiet=1)
    monkeypatch.syspath_prepend(tmp_path)
    core: Any = importlib.import_module("workload_models.io.k8s.api.core.v1")
    pod = core.PodSpec(containers=[core.Container(name="c", ports=[core.ContainerPort(containerPort=80)])])
    assert pod.containers[0].ports[0].containerPort == 80


def test_a_client_in_python(flunders: Path, tmp_path: Path) -> None:
    command = (generator("openapi-generator-cli"), "generate", "-i", str(flunders), "-g", "python")
    run(*command, "-o", str(tmp_path / "made"), "--package-name", "flunders")
    package = tmp_path / "made" / "flunders"
    assert compileall.compile_dir(package, quiet=1)
    written = {file.name for file in (package / "models").iterdir()}
    assert {f"com_example_wardle_v1_{name}.py" for name in ("flunder", "flunder_spec", "rope")} <= written


def test_a_client_in_typescript(flunders: Path, tmp_path: Path) -> None:
    command = (generator("openapi-generator-cli"), "generate", "-i", str(flunders), "-g", "typescript-fetch")
    run(*command, "-o", str(tmp_path / "made"))
    written = {file.name for file in (tmp_path / "made").rglob("*.ts")}
    assert {f"ComExampleWardleV1{name}.ts" for name in ("Flunder", "FlunderSpec", "Rope")} <= written
