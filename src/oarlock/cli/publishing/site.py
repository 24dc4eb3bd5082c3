"""``oarlock docs``: writes the reference of an API as a static site in HTML, and as Markdown beside it.

The site needs no server: its search is a script over a list of kinds and fields, both files of the site.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from oarlock.cli.publishing.examples import read_examples
from oarlock.cli.publishing.markup import Element, HTMLPart, code, link, markdown_code, markdown_text, paragraphs, tag
from oarlock.cli.publishing.operations import operations_of
from oarlock.cli.publishing.pages import KindReference, VersionReference, facts_of
from oarlock.registry.served import Served
from oarlock.server.command import CommandError

_CSP = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'none'; base-uri 'none'; form-action 'none'"


def index_page(title: str, kinds: Sequence[KindReference]) -> str:
    """The page that lists the kinds."""
    body: list[HTMLPart] = [tag("h1", title)]
    for group in dict.fromkeys(kind.definition.group for kind in kinds):
        rows = [
            tag("tr", tag("td", link(kind.name, kind.file)), tag("td", _versions(kind)), tag("td", kind.summary))
            for kind in kinds
            if kind.definition.group == group
        ]
        body += [tag("h2", group), _table(("Kind", "Versions", ""), rows)]
    return _page(title, title, body)


def _versions(kind: KindReference) -> str:
    return ", ".join(version.name for version in kind.versions)


def kind_page(title: str, kind: KindReference) -> str:
    """The page of a kind."""
    body: list[HTMLPart] = [tag("h1", kind.name), tag("p", *_spaced(facts_of(kind)), class_="facts")]
    body.append(tag("p", "Versions: ", *_jumps(kind)))
    for version in kind.versions:
        body += _version_html_pages(kind, version)
    if any(changes.texts for changes in kind.changes):
        body.append(tag("h2", "Changes", id="changes"))
    for changes in kind.changes:
        if changes.texts:
            items = [tag("li", text) for text in changes.texts]
            body += [tag("h3", f"From {changes.older} to {changes.newer}"), tag("ul", *items)]
    return _page(f"{kind.name} · {title}", title, body)


def _spaced(texts: Sequence[str]) -> Iterator[HTMLPart]:
    for text in texts:
        yield tag("span", text, class_="badge")


def _jumps(kind: KindReference) -> Iterator[HTMLPart]:
    for version in kind.versions:
        yield link(version.name, f"#{version.name}")
        yield " "


def _version_html_pages(kind: KindReference, version: VersionReference) -> Iterator[HTMLPart]:
    badges = [tag("span", text, class_="badge") for text in version.facts]
    yield tag("h2", version.api_version, *badges, id=version.name)
    yield from paragraphs(version.description)
    if version.rules:
        yield tag("ul", *(tag("li", code(rule)) for rule in version.rules))
    rows = [
        tag(
            "tr",
            tag("td", code(row.path)),
            tag("td", row.type, *([tag("span", "required", class_="badge")] if row.required else [])),
            tag("td", *paragraphs(row.description), *_limits(row.default, row.constraints)),
            id=f"{version.name}-{row.anchor}",
        )
        for row in version.fields
    ]
    if rows:
        yield tag("h3", "Fields")
        yield _table(("Field", "Type", "Description"), rows)
    for example in version.examples:
        yield tag("h3", "Example")
        yield tag("pre", example)
    yield tag("h3", "Operations")
    for operation in operations_of(kind.served, version.definition):
        ways = [("curl", operation.curl), ("kubectl", operation.kubectl), ("Python", operation.python)]
        shown = [part for name, text in ways if text for part in (tag("p", name), tag("pre", text))]
        yield tag("details", tag("summary", operation.title, " ", code(operation.request)), *shown)


def _limits(default: str, constraints: Sequence[str]) -> Iterator[HTMLPart]:
    if default:
        yield tag("p", "Default: ", code(default))
    for text in constraints:
        yield tag("p", text, class_="facts")


def _table(head: Sequence[str], rows: Sequence[Element]) -> Element:
    return tag("table", tag("thead", tag("tr", *(tag("th", text) for text in head))), tag("tbody", *rows))


def _page(title: str, home: str, body: Sequence[HTMLPart]) -> str:
    policy = Element("meta", (), {"http-equiv": "Content-Security-Policy", "content": _CSP})
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        policy,
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("link", rel="stylesheet", href="style.css"),
    )
    field = tag("input", type="search", placeholder="Search: press /", aria_label="Search")
    search = tag("div", field, tag("ul", class_="results"), class_="search")
    scripts = [tag("script", src=name) for name in ("pages.js", "search.js")]
    content = tag("body", tag("header", link(home, "index.html"), search), tag("main", *body), *scripts)
    return f"<!doctype html>\n{tag('html', head, content, lang='en')}\n"


def markdown_name(kind: KindReference) -> str:
    """The name of the page of a kind."""
    return kind.file.removesuffix(".html") + ".md"


def markdown_index(title: str, kinds: Sequence[KindReference]) -> str:
    """The page that lists the kinds."""
    lines = [f"# {markdown_text(title)}", "", "| kind | group | versions | |", "|---|---|---|---|"]
    for kind in kinds:
        versions = ", ".join(version.name for version in kind.versions)
        shown = f"[{kind.name}]({markdown_name(kind)})"
        lines.append(f"| {shown} | {kind.definition.group} | {versions} | {markdown_text(kind.summary)} |")
    return "\n".join(lines) + "\n"


def markdown_kind(kind: KindReference) -> str:
    """The page of a kind."""
    lines = [f"# {kind.name}", "", "; ".join(markdown_text(text) for text in facts_of(kind)) + "."]
    for version in kind.versions:
        lines += _version_markdown_pages(kind, version)
    for changes in kind.changes:
        if changes.texts:
            lines += ["", f"## From {changes.older} to {changes.newer}", ""]
            lines += [f"- {markdown_text(text)}" for text in changes.texts]
    return "\n".join(lines) + "\n"


def _version_markdown_pages(kind: KindReference, version: VersionReference) -> Iterator[str]:
    yield from ("", f"## {version.api_version}", "")
    if version.facts:
        yield from ("; ".join(markdown_text(text) for text in version.facts) + ".", "")
    for block in version.description.split("\n\n"):
        if block.strip():
            yield from (markdown_text(block), "")
    yield from (f"- {markdown_code(rule)}" for rule in version.rules)
    if version.fields:
        yield from ("", "| field | type | default | |", "|---|---|---|---|")
    for row in version.fields:
        kind_of = markdown_text(row.type) + (", required" if row.required else "")
        default = markdown_code(row.default) if row.default else ""
        text = markdown_text(". ".join([row.description.strip().rstrip("."), *row.constraints]).strip(". "))
        yield f"| {markdown_code(row.path)} | {kind_of} | {default} | {text} |"
    for example in version.examples:
        yield from ("", "Example:", "", *_block(example))
    yield from ("", "Operations:")
    for operation in operations_of(kind.served, version.definition):
        yield from ("", f"{operation.title}:", "")
        yield from _block("\n".join(filter(None, (operation.curl, operation.kubectl))))
        yield from ("", *_block(operation.python))


def _block(text: str) -> Iterator[str]:
    """A block whose text is indented: nothing in it ends it."""
    yield from (f"    {line}" for line in text.rstrip("\n").split("\n"))


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
