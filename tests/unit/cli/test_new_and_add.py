"""``oarlock new`` and ``oarlock add``: what they say, what they write, what they leave alone."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Oarlock = Callable[..., Any]


@pytest.fixture
def project(oarlock: Oarlock, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a kind Foo, as working directory."""
    made = oarlock("new", "demo", "--group", "demo.example.com", "--kind", "Foo", "--version", "v1beta1")
    assert made.returncode == 0, made.stderr
    monkeypatch.chdir(folder / "demo")
    return folder / "demo"


def files(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_a_new_project_is_told_line_by_line_and_how_to_go_on(oarlock: Oarlock, folder: Path) -> None:
    made = oarlock("new", "demo", "--group=demo.example.com", "--kind=Foo")
    assert (made.returncode, made.stderr) == (0, "")
    said = made.stdout.splitlines()
    assert said[0].startswith("demo: an API of demo.example.com, for oarlock ")
    written = {line.removeprefix("  create ") for line in said if line.startswith("  create ")}
    assert written == set(files(folder / "demo"))
    assert "src/demo/api/v1/foo.py" in written
    assert {"cd demo", "make run     # serves, and prints the kubectl line to try"} <= set(said)


def test_a_project_is_pinned_to_the_oarlock_that_made_it(project: Path, oarlock: Oarlock) -> None:
    version = oarlock("--version").stdout.split()[1]
    assert f'dependencies = ["oarlock=={version}"]' in (project / "pyproject.toml").read_text()


def test_a_folder_that_is_there_stays_as_it_is(project: Path, oarlock: Oarlock) -> None:
    before = files(project)
    refused = oarlock("new", "demo", "--group", "demo.example.com", "--folder", "..")
    assert refused.returncode == 1
    assert "is there already, and stays as it is" in refused.stderr
    assert files(project) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["new"], "the project's name is missing: oarlock new NAME --group GROUP"),
        (["new", "demo"], "its API group, a domain of yours is missing: --group demo.example.com"),
        (["new", "demo", "--group", "demo"], "'demo' isn't a valid API group: write a domain of yours"),
        (["new", "demo", "--group", "a.b", "--operator", "--extension"], "--operator=true: choose it or --extension"),
        (["add", "resource", "Foo", "--version", "v1"], "is in no project of oarlock"),
    ],
)
def test_what_is_missing_or_wrong_is_told_in_one_line(oarlock: Oarlock, arguments: list[str], says: str) -> None:
    refused = oarlock(*arguments)
    assert refused.returncode != 0
    assert refused.stdout == ""
    (line,) = refused.stderr.splitlines()
    assert says in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["resource"], "the kind is missing: oarlock add resource KIND --version VERSION"),
        (["resource", "Bar"], "its version is missing: --version v1"),
        (["resource", "Foo", "--version", "v1"], "oarlock add version Foo v1 adds another version of it"),
        (["resource", "Bar", "--version", "v1", "--plural", "foos"], "the plural foos is that of Foo"),
        (["resource", "Bar", "--version", "v1", "--field", "replicas:int", "--scale"], "leave out --field replicas"),
        (
            ["version", "Bar", "v1"],
            "Bar isn't a kind of this project: there are Foo; create it with oarlock add resource Bar",
        ),
        (["version", "Foo", "v1beta1"], "Foo is in v1beta1 already"),
        (["subresource", "Foo", "status"], "write status_subresource=True"),
        (["subresource", "Foo", "bar", "--kind", "socket"], "must be action or stream or connect"),
        (["controller", "Foo"], "src/demo/controllers/foo.py is there already, and stays as it is"),
    ],
)
def test_an_addition_that_cannot_be_made_is_told_in_one_line(
    project: Path, oarlock: Oarlock, arguments: list[str], says: str
) -> None:
    before = files(project)
    refused = oarlock("add", *arguments)
    assert refused.returncode != 0
    (line,) = refused.stderr.splitlines()
    assert says in line
    assert files(project) == before


def test_dry_run_and_diff_write_nothing(project: Path, oarlock: Oarlock) -> None:
    before = files(project)
    dry = oarlock("add", "subresource", "Foo", "bar", "--dry-run")
    assert "  would edit   src/demo/collections/foos.py" in dry.stdout.splitlines()
    shown = oarlock("add", "subresource", "Foo", "bar", "--diff")
    assert '+    @subresource("bar")' in shown.stdout.splitlines()
    assert files(project) == before


def test_an_addition_changes_only_the_lines_it_has_to(project: Path, oarlock: Oarlock) -> None:
    server = project / "src" / "demo" / "server.py"
    own = server.read_text().replace("def make_server", "X = {'a':1}   # ours\n\n\ndef make_server")
    server.write_text(own)
    done = oarlock("add", "resource", "Bar", "--version", "v1", "--field", "name:str", "--status", "--short-name", "br")
    assert done.returncode == 0, done.stderr
    edited = server.read_text().splitlines()
    assert [line for line in own.splitlines() if line not in edited] == [
        line for line in own.splitlines() if "serve=" in line
    ]
    assert "X = {'a':1}   # ours" in edited


def test_what_is_missing_is_asked_for_on_a_terminal(
    project: Path, oarlock: Oarlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = io.StringIO("bar\nBar\nv1\n")
    answers.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", answers)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = oarlock("add", "resource")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(
        "the kind:   'bar' isn't a valid kind: use letters and digits, an upper-case letter first"
    )
    assert done.stderr.endswith("\nthe kind: its version: ")
    assert (project / "src/demo/api/v1/bar.py").is_file()


@pytest.mark.slow
def test_help_needs_none_of_what_the_extra_brings() -> None:
    program = (
        "import sys\nfrom oarlock.cli.commands import COMMANDS\n[command for command in COMMANDS.loaded()]\n"
        "print(*{'libcst', 'jinja2', 'ruff'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.slow
def test_without_the_extra_its_name_is_said(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.modules['libcst'] = None\nfrom oarlock.cli import main\nmain(['new', 'x', '--group', 'a.b'])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "oarlock: libcst isn't installed: pip install 'oarlock[scaffold]'\n"
