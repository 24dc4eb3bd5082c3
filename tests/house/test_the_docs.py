"""The docs are true: their programs run, their options and names exist, every option and name is in them.

In a page, Python blocks run in order and share their names. A block that begins with ``# file.py`` is a file: it is
written, and imported if it isn't a test. A block that ends with ``# SomeError: its text`` raises just that.
"""

from __future__ import annotations

import builtins
import importlib
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import oarlock
from oarlock.cli.commands import COMMANDS
from oarlock.server.command import ServeOptions
from oarlock.server.options.commands import Command, CommandGroup, read_options
from oarlock.server.options.flags import read_flags
from oarlock.server.options.option import options_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.py)\n")
RAISES = re.compile(r"^# (\w+): (.*)\Z", re.MULTILINE | re.DOTALL)


def text() -> str:
    return "\n".join(page.read_text() for page in PAGES)


def blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in BLOCK.findall(page.read_text()) if kind == language]


def named(page: Path) -> str:
    return page.name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of a page, where its files can be imported from; forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=named)
def test_programs_run(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("of_this_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(page, "python"):
        file = FILE.match(block)
        if file is not None:
            write(folder / file[1], block)
        else:
            run(block, f"a block of {page.name}", module)


def write(file: Path, program: str) -> None:
    """Put a program where its first line says, in packages as far as that is below the working directory."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.parent != Path.cwd():
        (file.parent / "__init__.py").touch()
    file.write_text(program)
    name = ".".join(file.relative_to(Path.cwd()).with_suffix("").parts)
    importlib.invalidate_caches()
    if not file.name.startswith("test_"):
        importlib.import_module(name)
        return
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ("-p", "oarlock.testing.plugin", "-p", "oarlock_cluster.plugin", "-p", "anyio", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, file.name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def run(block: str, where: str, module: ModuleType) -> None:
    program = compile(block, where, "exec")
    expected = RAISES.search(block)
    if expected is None or not is_error(expected[1]):
        exec(program, vars(module))
        return
    with pytest.raises((TypeError, AssertionError)) as raised:  # a DeclarationError is a TypeError
        exec(program, vars(module))
    said = re.sub(r"^a block of \S+:\d+: ", "", str(raised.value))
    wanted = " ".join(expected[2].replace("\n#", " ").split())
    assert (type(raised.value).__name__, " ".join(said.split())) == (expected[1], wanted)


def is_error(name: str) -> bool:
    return name.endswith(("Error", "RoundTrip", "Conversion")) or isinstance(getattr(builtins, name, None), type)


def flags(command: Command | CommandGroup, path: str = "") -> list[str]:
    """Every flag of a command and of those below it."""
    path = f"{path} {command.name}".lstrip()
    if isinstance(command, Command):
        return [f"{path}: --{one.flag}" for one in options_of(command.options) if not one.is_argument]
    return [flag for inner in command.loaded() for flag in flags(inner, path)]


@pytest.mark.parametrize("flag", flags(COMMANDS))
def test_every_flag_is_in_the_docs(flag: str) -> None:
    command, _, name = flag.partition(": ")
    assert re.search(rf"{name}\b", text())
    assert command in text()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_command_lines_have_only_options_that_exist(page: Path) -> None:
    """Every ``$ oarlock …`` of a console block can be parsed."""
    for line in "".join(blocks(page, "console")).replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ ").rstrip("& "), comments=True)
        if line.startswith("$ ") and words and words[0] == "oarlock":
            assert mistakes(words[1:]) == []


def mistakes(words: list[str]) -> list[str]:
    """What is wrong with a command line. Nothing is carried out."""
    command: Command | CommandGroup = COMMANDS
    while isinstance(command, CommandGroup):
        if not words or words[0] in ("--version", "--help", "-h"):
            return []
        command = {inner.name: inner for inner in command.loaded()}[words[0]]
        words = words[1:]
    layer, found = read_flags(options_of(command.options), words, command.unused)
    return [*found, *layer.problems]


def test_a_wrong_command_line_is_noticed() -> None:
    assert mistakes(["serve", "shop.py", "--secure-port=x"])
    assert mistakes(["storage", "compact", "--nope"])


@pytest.mark.parametrize(
    "tool",
    [
        "flags_page.py",
        "errors_page.py",
        "conformance/run.py",
        pytest.param("metrics_page.py", marks=pytest.mark.slow),
    ],
)
def test_generated_pages_are_current(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str((ROOT / "tools" / tool).parent))
    made = runpy.run_path(str(ROOT / "tools" / tool))
    assert made["PAGE"].read_text() == made["page"](), f"run python tools/{tool}"


@pytest.mark.parametrize("example", blocks(ROOT / "docs" / "flags.md", "yaml"))
def test_configuration_files_in_the_docs_can_be_read(example: str, tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(example)
    assert read_options(ServeOptions, ["--config", str(file)], "oarlock serve").bind_address == "0.0.0.0"


@pytest.mark.parametrize("name", oarlock.__all__)
def test_every_public_name_is_in_the_docs(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "reference.md").read_text()


def test_the_reference_has_no_name_that_is_gone() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text().partition("## For tests")[0]
    names = re.findall(r"^\| (`[^|]*`) \|", reference, re.MULTILINE)
    listed = {name for cell in names for name in re.findall(r"`([A-Za-z_]+)`", cell)}
    assert listed - set(oarlock.__all__) == set()


def test_names_that_are_imported_in_the_docs_exist() -> None:
    for module, names in re.findall(r"`from (oarlock[\w.]*) import ([\w, ]+)`", text()):
        found = importlib.import_module(module)
        assert [name for name in re.findall(r"\w+", names) if not hasattr(found, name)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them of its headings."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M)
    shown = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line).lower() for line in lines)
    return {re.sub(r"[^\w\- ]", "", line).replace(" ", "-") for line in shown}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_to_headings_lead_to_headings(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text())
    targets = [(page.parent / file if file else page, heading) for file, heading in links]
    assert [f"{to.name}#{heading}" for to, heading in targets if heading not in headings(to)] == []


def test_the_front_page_of_the_docs_leads_to_every_page() -> None:
    front = DOCS / "index.md"
    links = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)[^)]*\)", front.read_text())}
    assert sorted(set(DOCS.rglob("*.md")) - links - {front}) == []


def test_the_readme_leads_to_the_front_page_of_the_docs() -> None:
    assert "(docs/index.md)" in (ROOT / "README.md").read_text()


def navigation(entries: object) -> Iterator[str]:
    """The pages of a part of the site's navigation."""
    if isinstance(entries, str):
        yield entries
    for inner in entries.values() if isinstance(entries, dict) else entries if isinstance(entries, list) else ():
        yield from navigation(inner)


def test_the_navigation_of_the_site_names_every_page_once() -> None:
    """`make docs` builds it, and checks the links of pages that are made there."""
    made = runpy.run_path(str(ROOT / "tools" / "docs_site.py"))
    named = list(navigation(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} | set(made["OUTSIDE"].values())
    assert sorted(named) == sorted(pages | set(map(made["api_page"], made["FACADES"])))


def test_each_decision_has_a_number_of_its_own() -> None:
    pages = sorted((ROOT / "decisions").glob("[0-9]*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert numbers == sorted(set(numbers))
    headings = [page.read_text().partition(".")[0] for page in pages]
    assert headings == [f"# {number}" for number in numbers]
