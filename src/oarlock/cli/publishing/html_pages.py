"""The reference of an API as HTML: a page for each kind, and one that lists them.

See also: `markdown_pages`, which says the same; `site`, which writes both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oarlock.cli.publishing.markup import Element, HTMLPart, code, link, paragraphs, tag
from oarlock.cli.publishing.operations import operations_of
from oarlock.cli.publishing.pages import KindReference, VersionReference, facts_of

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
        body += _version(kind, version)
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


def _version(kind: KindReference, version: VersionReference) -> Iterator[HTMLPart]:
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
