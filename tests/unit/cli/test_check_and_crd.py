"""``oarlock check`` and ``oarlock crd``: what would be served, what is doubtful, and what a cluster can be told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from oarlock.cli.declaring_commands import exported, missing
from oarlock.registry.served import Served
from oarlock.schema.crd import crd_errors
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition

BOXES = """\
from oarlock import APIServer, Model, Resource, Spoke, VirtualCollection


class Box(Resource, group="b.example.com", version="v2", plural="boxes", short_names=["bx"], status_subresource=True):
    \"\"\"A box.\"\"\"

    size: int = 1
    status: str | None = None


class OldBox(Spoke[Box], version="v1", deprecated=True):
    size: int = 1
    status: str | None = None

    def to_hub(self):
        return Box(metadata=self.metadata, size=self.size, status=self.status)

    @classmethod
    def from_hub(cls, hub):
        return cls(metadata=hub.metadata, size=hub.size, status=hub.status)


class Echo(Resource, group="a.example.com", version="v1", scope="Cluster"):
    \"\"\"What is said comes back.\"\"\"

    text: str = ""


class Echoes(VirtualCollection[Echo]):
    async def get(self, name, ctx):
        return Echo(text=name)


server = APIServer(serve=[Box, OldBox, Echoes])
"""


def test_check_shows_what_would_be_served_and_what_is_doubtful(oarlock, folder: Path):
    (folder / "things.py").write_text(BOXES)
    done = oarlock("check", "things.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "a.example.com",
        "  Echo (echos): cluster, virtual: get",
        "    v1",
        "b.example.com",
        "  Box (boxes, bx): namespaced",
        "    v2: hub, stored, /status",
        "    v1: deprecated",
        "warning: Box b.example.com/v1: it has no description: write a docstring, which kubectl explain shows",
        "warning: Box b.example.com/v1: users who may write it may write its status: set status_subresource=True",
        "warning: Echo: kubectl get can't list it: write a method list",
        "warning: every authenticated user may do everything: set authorizer= of APIServer",
    ]
    assert list(folder.glob("*.db*")) == []


def test_check_of_a_control_plane_speaks_only_of_what_is_its_users(oarlock, folder: Path):
    imported = "from oarlock.apps.controlplane.control_plane import ControlPlane\n"
    plane = imported + BOXES.replace("APIServer, ", "").replace("APIServer(", "ControlPlane(")
    (folder / "things.py").write_text(plane)
    done = oarlock("check", "things.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if not line.startswith(("  ", "warning: "))] == [
        "a.example.com",
        "b.example.com",
    ]
    doubts = [line for line in done.stdout.splitlines() if line.startswith("warning: ")]
    assert len(doubts) == 3
    assert all("Box" in line or "Echo" in line for line in doubts)
    (folder / "things.py").write_text(f"{imported}server = ControlPlane()\n")
    assert oarlock("check", "things.py").stdout == "no kinds of your own\n"


def test_who_reads_no_further_gets_no_trace():
    program = "import sys; sys.argv = ['oarlock', 'up', '--help']; from oarlock.cli import main; main()"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_check_tells_a_mistake_in_one_line(oarlock, folder: Path):
    (folder / "things.py").write_text(BOXES.replace('short_names=["bx"]', 'shortnames=["bx"]'))
    done = oarlock("check", "things.py")
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "short_names" in done.stderr


def test_crd_prints_what_a_cluster_takes(oarlock, folder: Path):
    (folder / "things.py").write_text(BOXES)
    done = oarlock("crd", "things.py")
    lost = "conversion between its versions: add spec.conversion with a webhook, or fields are lost"
    assert (done.returncode, done.stderr) == (0, f"Box: not in it: {lost}\n")
    (crd,) = yaml.safe_load_all(done.stdout)
    assert crd["metadata"]["name"] == "boxes.b.example.com"
    assert [version["name"] for version in crd["spec"]["versions"]] == ["v2", "v1"]
    assert not crd_errors(crd)
    assert "x-oarlock" not in done.stdout
    assert oarlock("crd", "things.py", "boxes.b.example.com").stdout == done.stdout


@pytest.mark.parametrize("name", ["boxes", "echos.a.example.com", "x"])
def test_crd_of_something_else_is_a_mistake_that_names_what_there_is(oarlock, folder: Path, name: str):
    (folder / "things.py").write_text(BOXES)
    done = oarlock("crd", "things.py", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert "boxes.b.example.com" in done.stderr


RICH = """\
from typing import Annotated

from oarlock import Column, Model, Resource, StoredCollection, Proto


class OrderSpec(Model):
    lines: Annotated[int, Proto(1)] = 1


class Order(
    Resource,
    group="shop.example.com",
    version="v1",
    ttl_s=60,
    columns=[Column("Lines", ".spec.lines"), Column("Twice", expression="string(self.spec.lines * 2)")],
):
    \"\"\"An order.\"\"\"

    spec: OrderSpec

    def default(self):
        self.spec.lines = 2


class Orders(StoredCollection[Order]):
    def prepare(self, new, old, ctx):
        pass

    def validate(self, new, old, ctx):
        yield from ()
"""


@pytest.mark.parametrize("where", ["{}.py", "{}", "{}:Orders", "{}.py:Order"])
def test_a_class_alone_is_printed_and_what_is_missing_is_told(oarlock, folder: Path, where: str):
    module = f"orders_{len(where)}"
    (folder / f"{module}.py").write_text(RICH)
    done = oarlock("crd", where.format(module), "--output", "json")
    crd = json.loads(done.stdout)
    assert crd["spec"]["versions"][0]["additionalPrinterColumns"] == [
        {"name": "Lines", "type": "string", "jsonPath": ".spec.lines"}
    ]
    assert not crd_errors(crd)
    assert "x-oarlock" not in done.stdout
    assert done.stderr.splitlines() == [
        "Order: not in it: default(): write defaults of the fields, or a mutating admission webhook",
        "Order: not in it: prepare and validate: write rules, or an admission webhook",
        "Order: not in it: ttl_s: objects don't expire in a cluster",
        "Order: not in it: column Twice: it is computed, and a cluster's has a jsonPath",
        "Order: not in it: protobuf: a cluster answers with JSON and YAML only",
    ]
    assert done.returncode == 0


def test_what_a_cluster_would_refuse_is_told():
    version = VersionDefinition("v1", {"type": "object"})
    served = Served(ResourceDefinition("boxes", Names("boxes", "Box"), "Cluster", (version,), "v1", "v1"))
    (told,) = missing(served)
    assert told == "a cluster would refuse it: " + crd_errors(exported(served.definition))[0].message


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["things.py", "--output", "xml"], "must be yaml or json"),
        (["things.py:Nothing"], "Nothing isn't a resource, collection or APIServer of things"),
        (["nobody"], "can't import nobody"),
        (["empty.py"], "it contains no resource"),
    ],
)
def test_mistakes_of_crd_are_told_in_one_line(oarlock, folder: Path, words: list[str], why: str):
    (folder / "things.py").write_text(BOXES)
    (folder / "empty.py").write_text("")
    done = oarlock("crd", *words)
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1
