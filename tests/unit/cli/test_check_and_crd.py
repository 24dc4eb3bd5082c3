"""``oarlock check`` and ``oarlock crd``: what would be served, what is doubtful, and what a cluster can be told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from oarlock.schema.crd import crd_errors

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
        "doubtful: Box b.example.com/v1: it has no description: write a docstring, which kubectl explain shows",
        "doubtful: Box b.example.com/v1: whoever may write it may write its status: say status_subresource=True",
        "doubtful: Echo: kubectl get can't list it: write a method list",
        "doubtful: everybody with a credential may do everything: give APIServer an authorizer",
    ]
    assert list(folder.glob("*.db*")) == []


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
    assert (done.returncode, done.stderr) == (0, "")
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
