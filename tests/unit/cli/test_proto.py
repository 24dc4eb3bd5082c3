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


SPEC = "    size: Annotated[int, Proto(1)] = 1\n"
GROWN = SPEC + '    name: Annotated[str, Proto(2)] = ""\n'


def declare(folder: Path, fields: str) -> None:
    (folder / "things.py").write_text(NUMBERED.replace(SPEC, fields) + "\n\nserver = APIServer(serve=[Thing])\n")


def test_a_lock_is_written_and_then_kept_up_to_date(folder: Path, oarlock: Callable[..., Any]) -> None:
    declare(folder, SPEC)
    missing = oarlock("proto", "things.py", "--check", "thing.proto")
    assert missing.returncode == 1
    assert "thing.proto: there is no such file: write it with --lock" in missing.stderr
    assert oarlock("proto", "things.py", "--lock", "thing.proto").stdout == "thing.proto: written\n"
    assert (folder / "thing.proto").read_text() == oarlock("proto", "things.py").stdout
    assert oarlock("proto", "things.py", "--lock", "thing.proto").stdout == "thing.proto: as it was\n"
    assert oarlock("proto", "things.py", "--check", "thing.proto").stdout == "thing.proto: as declared\n"
    declare(folder, GROWN)
    behind = oarlock("proto", "things.py", "--check", "thing.proto")
    assert (behind.returncode, behind.stdout) == (1, "")
    assert "thing.proto: fields were added or removed since: write it again with --lock" in behind.stderr
    assert oarlock("proto", "things.py", "--lock", "thing.proto").returncode == 0
    assert oarlock("proto", "things.py", "--check", "thing.proto").returncode == 0


def test_what_breaks_clients_is_told_and_nothing_is_written(folder: Path, oarlock: Callable[..., Any]) -> None:
    declare(folder, GROWN)
    oarlock("proto", "things.py", "--lock", "thing.proto")
    before = (folder / "thing.proto").read_text()
    declare(
        folder, SPEC.replace("int,", "str,").replace("= 1", '= ""') + GROWN[len(SPEC) :].replace("Proto(2)", "Proto(3)")
    )
    for option in ("--lock", "--check"):
        refused = oarlock("proto", "things.py", option, "thing.proto")
        assert refused.returncode == 1
        assert refused.stdout.splitlines() == [
            "message ThingSpec, field size: number 1 was optional int64, now it is optional string: "
            "give it another number",
            "message ThingSpec, field name: its number was 2, now it is 3: give it 2 again",
        ]
        assert "2 changes would break clients that were built with thing.proto" in refused.stderr
    assert (folder / "thing.proto").read_text() == before


def test_the_number_of_a_field_that_went_is_not_given_again(folder: Path, oarlock: Callable[..., Any]) -> None:
    declare(folder, GROWN)
    oarlock("proto", "things.py", "--lock", "thing.proto")
    declare(folder, SPEC)
    oarlock("proto", "things.py", "--lock", "thing.proto")
    assert "  reserved 2;  // name\n" in (folder / "thing.proto").read_text()
    declare(folder, GROWN.replace("name", "label"))
    refused = oarlock("proto", "things.py", "--lock", "thing.proto")
    assert refused.stdout == (
        "message ThingSpec, field label: 2 was the number of name, which was removed: give it another\n"
    )


def test_a_file_that_cannot_be_read_back(folder: Path, oarlock: Callable[..., Any]) -> None:
    declare(folder, SPEC)
    for text, why in (("enum A { B = 0; }", "line 1: 'enum' isn't read here"), ("", "there is no message Thing in it")):
        (folder / "thing.proto").write_text(text)
        refused = oarlock("proto", "things.py", "--check", "thing.proto")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"thing.proto: {why}" in refused.stderr
    (folder / "thing.proto").write_bytes(b"\xff")
    assert "thing.proto: isn't text in UTF-8" in oarlock("proto", "things.py", "--lock", "thing.proto").stderr
    assert "no/thing.proto: No such file" in oarlock("proto", "things.py", "--lock", "no/thing.proto").stderr
    assert "Is a directory" in oarlock("proto", "things.py", "--check", ".").stderr
    assert "say either" in oarlock("proto", "things.py", "--lock", "a", "--check", "b").stderr
