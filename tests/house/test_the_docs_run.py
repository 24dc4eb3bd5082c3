"""The programs in the README and the docs are real: they are written to files and served."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n# (\S+\.py)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

USE = """
import asyncio, sys
from oarlock.cli.loading import load_server
from oarlock.testing.server import InMemory

async def use(where, path, body):
    server = load_server(where)
    async with InMemory(server) as api:
        made = await api.post(path, body)
        assert made.status == 201, made
        print(made.json["kind"], *sorted(made.json["spec"].items()))

asyncio.run(use(*eval(sys.argv[1])))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "call", "says"),
    [
        (
            "README.md",
            (
                "flunders.py",
                "/apis/wardle.example.com/v1/namespaces/default/flunders",
                {"metadata": {"name": "a"}, "spec": {"reference": "b"}},
            ),
            "Flunder ('reference', 'b') ('replicas', 1)",
        ),
        (
            "docs/getting-started.md",
            (
                "shop/server.py",
                "/apis/shop.example.com/v1/namespaces/default/orders",
                {"metadata": {"name": "a"}, "spec": {"item": "tea"}},
            ),
            "Order ('count', 1) ('item', 'tea') ('size', 'small')",
        ),
    ],
)
def test_programs_in_the_docs_run(tmp_path: Path, page: str, call: tuple[object, ...], says: str) -> None:
    written(tmp_path, page)
    done = python(tmp_path, USE, repr(call))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == says


def test_an_authenticator_in_the_docs_knows_its_keys(tmp_path: Path) -> None:
    written(tmp_path, "docs/security.md")
    program = """
import asyncio
from oarlock import BadCredentials, Credentials
from shop.keys import server

async def use():
    (keys,) = server.authenticators
    print((await keys.authenticate(Credentials({"x-api-key": "k1"}, ()))).user.name)
    print(await keys.authenticate(Credentials({}, ())))
    try:
        await keys.authenticate(Credentials({"x-api-key": "k2"}, ()))
    except BadCredentials as error:
        print(error)

asyncio.run(use())
"""
    done = python(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["north", "None", "no such key", ""]


def written(folder: Path, page: str) -> None:
    """Every program of a page that names its file, in that file."""
    programs = BLOCK.findall((ROOT / page).read_text())
    assert programs
    for name, program in programs:
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        if file.parent != folder:
            (file.parent / "__init__.py").touch()
        file.write_text(program)


def python(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_second_version_in_the_docs_converts(tmp_path: Path) -> None:
    written(tmp_path, "docs/getting-started.md")
    program = (
        "from shop.old import OldOrder, OldOrderSpec\n"
        "hub = OldOrder(spec=OldOrderSpec(item='tea', large=True)).to_hub()\n"
        "assert hub.spec.size == 'large'\n"
        "assert OldOrder.from_hub(hub).spec.large\n"
    )
    done = python(tmp_path, program)
    assert done.returncode == 0, done.stderr


DEFINE = """
import asyncio, json
from oarlock.cli.loading import load_server
from oarlock.testing.server import InMemory

NAMES = {"plural": "kites", "singular": "kite", "kind": "Kite", "listKind": "KiteList"}
SCHEMA = {"type": "object", "properties": {"colour": {"type": "string"}}}
VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kites.toys.example.com"},
    "spec": {"group": "toys.example.com", "scope": "Namespaced", "names": NAMES, "versions": [VERSION]},
}
DEFINITIONS = "/apis/definitions.example.com/v1/definitions"
KITES = "/apis/toys.example.com/v1/namespaces/default/kites"

async def use():
    async with InMemory(load_server("definitions.py")) as api:
        new = {"metadata": {"name": "kites.toys.example.com"}, "crd": json.dumps(CRD)}
        for body, status in ((new | {"crd": "{}"}, 400), (new | {"metadata": {"name": "x"}}, 400), (new, 201)):
            answer = await api.post(DEFINITIONS, body)
            assert answer.status == status, answer
        assert (await api.post(KITES, {"metadata": {"name": "a"}, "colour": "red"})).json["colour"] == "red"
        assert (await api.delete(f"{DEFINITIONS}/kites.toys.example.com")).status == 200
        assert (await api.get(KITES)).status == 404
        assert (await api.post(DEFINITIONS, new)).status == 201
        print([item["metadata"]["name"] for item in (await api.get(KITES)).json["items"]])

asyncio.run(use())
"""


def test_definitions_come_and_go_in_the_docs(tmp_path: Path) -> None:
    written(tmp_path, "docs/definitions.md")
    done = python(tmp_path, DEFINE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['a']"


INSTALL = """
import asyncio, json, subprocess, sys
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.crds.conversion import ConversionReview
from oarlock.testing.server import InMemory
from webhook import convert

command = [sys.executable, "-m", "oarlock", "crd", "sensors.py", "--output", "json"]
printed = subprocess.run(command, capture_output=True, text=True, check=True)
print(printed.stderr.strip())
SENSORS = "/apis/plant.example.com/v1/namespaces/default/sensors"

async def use():
    async with InMemory(ControlPlane()) as api:
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await api.post(crds, json.loads(printed.stdout))).status == 201
        while (await api.get(SENSORS)).status != 200:
            await asyncio.sleep(0.01)
        sensor = (await api.post(SENSORS, {"metadata": {"name": "a"}, "spec": {"unit": "Kelvin"}})).json
        print(sensor["spec"])
        review = ConversionReview("v1", "u", "plant.example.com/v2", [sensor])
        (converted,) = review.converted(json.dumps(convert(json.loads(review.question()))).encode())
        print(converted["spec"])
        back = ConversionReview("v1", "u", "plant.example.com/v1", [converted])
        assert back.converted(json.dumps(convert(json.loads(back.question()))).encode()) == [sensor]

asyncio.run(use())
"""


@pytest.mark.slow
def test_a_class_in_the_docs_is_installed_as_a_definition(tmp_path: Path) -> None:
    written(tmp_path, "docs/custom-resources.md")
    done = python(tmp_path, INSTALL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Sensor: not in it: prepare: write rules, or an admission webhook",
        "{'seconds': 60, 'unit': 'Kelvin'}",
        "{'measures': 'Kelvin@60'}",
    ]


@pytest.mark.slow
def test_the_program_about_aggregation_runs(tmp_path: Path) -> None:
    written(tmp_path, "docs/aggregation.md")
    done = python(tmp_path, (tmp_path / "local.py").read_text())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["False FailedDiscoveryCheck", "503"]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = ("README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))))
IMPORTED_AS = {"pyyaml": "yaml", "google-re2": "re2"}


def brought(requirements: list[str]) -> set[str]:
    """The modules of what is required."""
    names = (re.split(r"[^\w.-]", one)[0].lower() for one in requirements)
    return {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}


@pytest.mark.parametrize("page", PAGES)
def test_what_documented_tests_import_comes_with_the_extra(page: str) -> None:
    text = (ROOT / page).read_text()
    programs = BLOCK.findall(text)
    local = {part for name, _ in programs for part in (name.partition("/")[0], Path(name).stem)}
    extra = brought(PROJECT["dependencies"]) | brought(PROJECT["optional-dependencies"]["testing"])
    for name, program in programs:
        if not Path(name).name.startswith(("test_", "conftest")):
            continue
        imported = {
            one.partition(".")[0]
            for node in ast.walk(ast.parse(program))
            for one in ([alias.name for alias in getattr(node, "names", ())] if isinstance(node, ast.Import) else [])
            + ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
        }
        if "pytest.mark.anyio" in program:
            imported.add("anyio")
        said = {module for module in imported if f"pip install {module}" in text or f"`{module}`" in text}
        assert imported - {"oarlock", *sys.stdlib_module_names} - local - extra - said == set(), name
