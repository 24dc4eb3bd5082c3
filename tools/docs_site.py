"""Builds the site of the documentation in build/site: ``make docs``.

Zensical reads one folder. This tool fills it: the pages of docs/, the changelog, the architecture, and a page for each
public package, whose text mkdocstrings takes from the docstrings. Links that leave docs/ are changed to these pages.
A link to a page or a heading that doesn't exist ends the build. zensical.toml has the navigation.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "build" / "docs"

OUTSIDE = {"CHANGELOG.md": "changes.md", "ARCHITECTURE.md": "architecture.md"}
"""Pages beside docs/ that the site has, too, and their places in it."""

FACADES = {
    "oarlock": "Declaring and serving",
    "oarlock.client": "The client",
    "oarlock.controllers": "Controllers",
    "oarlock.testing": "For tests",
    "oarlock.extend": "Parts of a control plane",
    "oarlock.meta.errors": "Answers with an error",
    "oarlock.meta.fielderrors": "Errors in fields",
    "oarlock.storage.backend": "Backends",
    "oarlock.server.config": "The settings of a server",
}
"""The modules whose names are public, with the titles of their pages."""

MODULES = ("errors",)
"""Names of `oarlock` that are modules with a page of their own."""

LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")


def main() -> int:
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(DOCS, SOURCE)
    for page in DOCS.rglob("*.md"):
        (SOURCE / page.relative_to(DOCS)).write_text(relinked(page))
    for name, place in OUTSIDE.items():
        (SOURCE / place).write_text(relinked(ROOT / name))
    for module, title in FACADES.items():
        file = SOURCE / api_page(module)
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"# {title}: `{module}`\n\n" + "\n".join(directives(module)))
    return subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=ROOT).returncode


def api_page(module: str) -> str:
    """The place of a module's page in the site."""
    return f"api/{module}.md"


def directives(module: str) -> Iterator[str]:
    """What mkdocstrings shows of a module: its docstring, and its public names."""
    yield from (f"::: {module}", "    options:", "      show_root_heading: false", "      show_root_toc_entry: false")
    listed = getattr(importlib.import_module(module), "__all__", None)
    if listed is not None:
        names = sorted(set(listed) - set(MODULES), key=str.lower)
        yield from ("      members:", *(f"        - {name}" for name in names))
    yield ""


def relinked(page: Path) -> str:
    """The text of a page whose links lead to pages of the site. Raises FileNotFoundError for one that can't."""

    def leading(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / link[2]))
        return f"{link[1]}{os.path.relpath(place_of(target), place_of(page).parent)}{link[3]}"

    parts = re.split(r"(^```.*?^```$)", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(leading, part) for part in parts)


def place_of(file: Path) -> Path:
    """Where the site has a file of the repository."""
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS)
    name = str(file.relative_to(ROOT))
    if name not in OUTSIDE:
        raise FileNotFoundError(f"the site has no page for {name}")
    return Path(OUTSIDE[name])


if __name__ == "__main__":
    sys.exit(main())
