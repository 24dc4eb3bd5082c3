"""A project is brought up to date where its owner has changed nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from projects import made

from oarlock.scaffold.changes import Changes
from oarlock.scaffold.edits import LeftAlone, three_way, update
from oarlock.scaffold.names import ScaffoldError
from oarlock.scaffold.project import MADE, Project

BASE = "a\nb\nc\nd\ne\n"


@pytest.mark.parametrize(
    ("own", "new", "merged", "refused"),
    [
        (BASE, "a\nB\nc\nd\ne\nf\n", "a\nB\nc\nd\ne\nf\n", []),
        ("a\nb\nc\nd\nOURS\n", "A\nb\nc\nd\ne\n", "A\nb\nc\nd\nOURS\n", []),
        ("a\nOURS\nc\nd\ne\n", "a\nB\nc\nd\nE\n", "a\nOURS\nc\nd\nE\n", ["B"]),
        ("a\nsame\nc\nd\ne\n", "a\nsame\nc\nd\ne\n", "a\nsame\nc\nd\ne\n", []),
        ("a\nc\nd\ne\n", "a\nb\nc\nd\n", "a\nc\nd\n", []),
        ("", BASE.upper(), "", ["A", "B", "C", "D", "E"]),
    ],
)
def test_lines_of_the_owner_stay(own: str, new: str, merged: str, refused: list[str]) -> None:
    assert three_way(BASE, own, new) == (merged, refused)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A project that an older oarlock made, whose templates said other things."""
    root = made(tmp_path / "demo", "demo")
    recorded = json.loads((root / MADE).read_text())
    for path, now, then in (
        ("Makefile", "IMAGE ?= demo:dev", "IMAGE ?= demo:latest"),
        ("README.md", "`make test` runs the tests", "`make check` runs the tests"),
        ("pyproject.toml", "oarlock==0.1.0", "oarlock==0.0.9"),
    ):
        text = recorded["files"][path].replace(now, then)
        assert text != recorded["files"][path]
        recorded["files"][path] = text
        (root / path).write_text(text)
    del recorded["files"][".dockerignore"]
    (root / ".dockerignore").unlink()
    (root / MADE).write_text(json.dumps(recorded))
    return root


def updated(root: Path) -> list[LeftAlone]:
    changes = Changes(root)
    left = update(Project.find(root), changes, "0.1.0")
    changes.write()
    return left


def test_an_older_project_becomes_what_a_new_one_is(older: Path, tmp_path: Path) -> None:
    assert updated(older) == []
    new = made(tmp_path / "new", "demo")
    for path in (file for file in new.rglob("*") if file.is_file()):
        assert (older / path.relative_to(new)).read_text() == path.read_text()


def test_what_the_owner_changed_and_removed_stays_so(older: Path) -> None:
    makefile = older / "Makefile"
    makefile.write_text(makefile.read_text().replace("demo:latest", "ours:1.0") + "\nours:\n\techo ours\n")
    (older / "Dockerfile").unlink()
    before = makefile.read_text()
    assert updated(older) == [LeftAlone("Makefile", ("IMAGE ?= demo:dev",))]
    assert makefile.read_text() == before
    assert not (older / "Dockerfile").exists()
    assert "`make test` runs the tests" in (older / "README.md").read_text()
    assert '"oarlock==0.1.0"' in (older / "pyproject.toml").read_text()


def test_a_second_update_has_nothing_to_do(older: Path) -> None:
    updated(older)
    changes = Changes(older)
    assert update(Project.find(older), changes, "0.1.0") == []
    assert changes.files() == {}


def test_without_a_record_nothing_is_guessed(older: Path) -> None:
    (older / MADE).unlink()
    with pytest.raises(ScaffoldError, match=r"\.oarlock\.json isn't there"):
        updated(older)
