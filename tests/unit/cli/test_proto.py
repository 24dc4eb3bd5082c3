"""``oarlock proto``: which file it prints, and what it says when there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

NUMBERED = '''\
from typing import Annotated

from oarlock import APIServer, Model, Proto, Resource


class Spec(Model):
    """What is wanted."""

    size: Annotated[int, Proto(1)] = 1


class Thing(Resource, group="test.example.com", version="v1"):
    """A thing."""

    spec: Annotated[Spec, Proto(2)] = Spec()


class Other(Resource, group="test.example.com", version="v1"):
    """Another."""

    spec: Annotated[Spec, Proto(2)] = Spec()
'''


def test_the_file_of_a_version(folder: Path, oarlock: Callable[..., Any]) -> None:
    assert "no field has a number" in oarlock("proto", "things.py").stderr
    (folder / "things.py").write_text(NUMBERED + "\n\nserver = APIServer(serve=[Thing])\n")
    done = oarlock("proto", "things.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "message ThingSpec {\n  optional int64 size = 1;\n}" in done.stdout
    assert oarlock("proto", "things.py", "test.example.com/v1/things").stdout == done.stdout


def test_one_of_several_must_be_named(folder: Path, oarlock: Callable[..., Any]) -> None:
    (folder / "things.py").write_text(NUMBERED + "\n\nserver = APIServer(serve=[Thing, Other])\n")
    done = oarlock("proto", "things:server")
    assert done.returncode != 0
    assert (
        "several have field numbers: say one of test.example.com/v1/things, test.example.com/v1/others" in done.stderr
    )
    assert "message Other {" in oarlock("proto", "things:server", "test.example.com/v1/others").stdout
    assert "x has no field numbers" in oarlock("proto", "things:server", "x").stderr
