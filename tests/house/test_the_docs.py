"""Every option and every public name is in the docs, and every link in them leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

import oarlock
from oarlock.cli.commands import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def text() -> str:
    return "\n".join(page.read_text() for page in PAGES)


def options(command: Any, path: str) -> list[str]:
    """Every option of a command and of those below it."""
    found = [f"{path}: {max(p.opts, key=len)}" for p in command.params if p.param_type_name == "option"]
    for name, below in getattr(command, "commands", {}).items():
        found += options(below, f"{path} {name}")
    return found


@pytest.mark.parametrize("option", options(typer.main.get_command(app()), "oarlock"))
def test_every_option_is_in_the_docs(option: str) -> None:
    command, _, name = option.partition(": ")
    assert re.search(rf"{name}\b", text())
    assert command in text()


@pytest.mark.parametrize("name", oarlock.__all__)
def test_every_public_name_is_in_the_docs(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "reference.md").read_text()


def test_the_reference_has_no_name_that_is_gone() -> None:
    names = re.findall(r"^\| (`[^|]*`) \|", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    listed = {name for cell in names for name in re.findall(r"`([A-Za-z_]+)`", cell)}
    assert listed - set(oarlock.__all__) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []
