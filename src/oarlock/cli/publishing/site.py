"""``oarlock docs``: writes the reference of an API as a static site, and as Markdown beside it.

The site needs no server: its search is a script over a list of kinds and fields, both files of the site.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from oarlock.cli.publishing.examples import read_examples
from oarlock.cli.publishing.html_pages import index_page, kind_page
from oarlock.cli.publishing.markdown_pages import markdown_index, markdown_kind, markdown_name
from oarlock.cli.publishing.pages import KindReference
from oarlock.registry.served import Served
from oarlock.server.command import CommandError

_ASSETS = Path(__file__).parent / "assets"


def site_files(resources: Sequence[Served], title: str, examples: Path | None) -> dict[str, str]:
    """The files of the site. Raises CommandError for an example that isn't right."""
    found = read_examples(examples, resources)
    kinds = [KindReference(served, found) for served in resources]
    kinds.sort(key=lambda kind: (kind.definition.group, kind.name))
    files = {
        "index.html": index_page(title, kinds),
        "pages.js": f"window.pages = {_script_json([*_entries(kinds)])};\n",
        "markdown/index.md": markdown_index(title, kinds),
    }
    for asset in ("style.css", "search.js"):
        files[asset] = (_ASSETS / asset).read_text()
    for kind in kinds:
        files[kind.file] = kind_page(title, kind)
        files[f"markdown/{markdown_name(kind)}"] = markdown_kind(kind)
    return files


def _entries(kinds: Sequence[KindReference]) -> Iterator[tuple[str, str, str]]:
    """What search finds: a name, where it is, and a line about it."""
    for kind in kinds:
        yield kind.name, kind.file, kind.summary
        for version in kind.versions:
            for row in version.fields:
                name = f"{kind.name} {version.name} {row.path}"
                text = " ".join(filter(None, (row.description, row.type, *row.constraints)))
                yield name, f"{kind.file}#{version.name}-{row.anchor}", " ".join(text.split())[:200]


def _script_json(value: object) -> str:
    """JSON that can stand in a script."""
    return json.dumps(value).replace("<", "\\u003c")


def write_site(files: dict[str, str], folder: Path) -> None:
    """Write them below `folder`. Raises CommandError."""
    for name, text in files.items():
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{error.filename or file}: {error.strerror}") from None
