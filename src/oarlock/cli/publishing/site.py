"""``oarlock docs``: writes the reference of an API as a static site in HTML, and as Markdown beside it.

The site needs no server: its search is a script over a list of kinds and fields, both files of the site.
HTML is made of `Element`s alone, which are escaped when they are printed: whatever a description says, it becomes no
markup.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from oarlock.cli.publishing.examples import Examples, read_examples
from oarlock.cli.publishing.reference import FieldRow, VersionChanges, changes_of, fields_of_version, rules_of_version
from oarlock.meta.dataclass import dataclass
from oarlock.registry.served import Served
from oarlock.schema.definition import ResourceDefinition, VersionDefinition
from oarlock.server.command import CommandError

_WITHOUT_END = frozenset({"meta", "link", "input", "br"})


@dataclass(frozen=True, slots=True)
class Element:
    """An HTML element."""

    name: str
    parts: Sequence[HTMLPart] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        attributes = "".join(f' {name}="{html.escape(value)}"' for name, value in self.attributes.items())
        if self.name in _WITHOUT_END:
            return f"<{self.name}{attributes}>"
        return f"<{self.name}{attributes}>{''.join(map(_printed, self.parts))}</{self.name}>"


HTMLPart = str | Element


def _printed(part: HTMLPart) -> str:
    return str(part) if isinstance(part, Element) else html.escape(part)


def tag(name: str, /, *parts: HTMLPart, **attributes: str) -> Element:
    """An element; ``class_`` is its class."""
    return Element(name, parts, {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()})


def code(text: str) -> Element:
    return tag("code", text)


def link(text: str, target: str) -> Element:
    """A link within the site."""
    return tag("a", text, href=target)


def paragraphs(text: str) -> Iterator[Element]:
    """The paragraphs of a description; what is indented or listed keeps its lines."""
    for block in re.split(r"\n[ \t]*\n", text.strip("\n")):
        if block.strip():
            lines = block.split("\n")
            kept = any(re.match(r"\s|[-*] |\d+\. ", line) for line in lines)
            yield tag("p", block, class_="lines") if kept else tag("p", " ".join(line.strip() for line in lines))


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#!&])")


def markdown_text(text: str) -> str:
    """A text on one line of Markdown, also in a table."""
    return _SPECIAL.sub(_shown, " ".join(text.split()))


def _shown(match: re.Match[str]) -> str:
    char = match.group()
    return html.escape(char) if char in "<>&" else "\\" + char


def markdown_code(text: str) -> str:
    """A text as code within a line of Markdown, also in a table."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{' '.join(text.split())}{padding}{fence}".replace("|", "\\|")


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """An operation, with the request it is and three ways to make it. kubectl has no word for some."""

    title: str
    request: str
    curl: str
    kubectl: str
    python: str


_CURL = 'curl --cacert ca.crt --header "Authorization: Bearer $TOKEN"'
_JSON = "--header 'Content-Type: application/json' --data @object.json"
_MERGE = '--header \'Content-Type: application/merge-patch+json\' --data \'{"metadata": {"labels": {"a": "b"}}}\''


def operations_of(served: Served, version: VersionDefinition) -> Iterator[ShownOperation]:
    """The operations of one version."""
    definition, verbs = served.definition, {*served.verbs()}
    gvk = definition.gvk(version.name)
    plural = definition.names.plural
    full = ".".join(filter(None, (plural, gvk.version if gvk.group else "", gvk.group)))
    root = f"/apis/{gvk.group}/{gvk.version}" if gvk.group else f"/api/{gvk.version}"
    path = f"{root}/namespaces/NAMESPACE/{plural}" if definition.namespaced else f"{root}/{plural}"
    spaced = " --namespace NAMESPACE" if definition.namespaced else ""
    argument = ', namespace="NAMESPACE"' if definition.namespaced else ""
    typed = f'"{gvk.api_version}/{gvk.kind}"'
    name, listed, kind = f"{path}/NAME", f"client.list({typed}{argument})", f'{typed}, "NAME"{argument}'
    known = {
        "create": (
            "Create",
            f"POST {path}",
            _JSON,
            f"create --filename object.yaml{spaced}",
            "await client.create(tree)",
        ),
        "get": ("Read one", f"GET {name}", "", f"get {full} NAME{spaced}", f"await client.get({kind})"),
        "list": ("List", f"GET {path}", "", f"get {full}{spaced}", f"[tree async for tree in {listed}]"),
        "watch": (
            "Watch",
            f"GET {path}?watch=true",
            "",
            f"get {full} --watch{spaced}",
            f"async for event in client.watch({typed}{argument}): ...",
        ),
        "update": (
            "Replace",
            f"PUT {name}",
            _JSON,
            f"replace --filename object.yaml{spaced}",
            "await client.update(tree)",
        ),
        "patch": (
            "Change a part",
            f"PATCH {name}",
            _MERGE,
            f"label {full} NAME a=b{spaced}",
            f'await client.patch({typed}, "NAME", {{"metadata": {{"labels": {{"a": "b"}}}}}}{argument})',
        ),
        "delete": ("Delete", f"DELETE {name}", "", f"delete {full} NAME{spaced}", f"await client.delete({kind})"),
    }
    for verb, (title, request, data, words, python) in known.items():
        if verb in verbs:
            yield _operation(title, request, data, f"kubectl {words}", python)
    yield from _subresources(version, name, full, spaced, kind)


def _subresources(version: VersionDefinition, name: str, full: str, spaced: str, kind: str) -> Iterator[ShownOperation]:
    if version.status:
        words = f"kubectl get {full} NAME --subresource status{spaced}"
        python = f'await client.request("GET", "{name}/status")'
        yield _operation("Read the status", f"GET {name}/status", "", words, python)
    if version.scale is not None:
        words = f"kubectl scale {full} NAME --replicas 3{spaced}"
        body = '{"spec": {"replicas": 3}}'
        data = f"--header 'Content-Type: application/merge-patch+json' --data '{body}'"
        python = f"await client.scale({kind}, replicas=3)"
        yield _operation("Scale", f"PATCH {name}/scale", data, words, python)
    for subresource in version.subresources:
        for verb in subresource.verbs:
            method = {"create": "POST", "get": "GET", "update": "PUT", "patch": "PATCH"}.get(verb, "")
            if method:
                path = f"{name}/{subresource.name}"
                data = _JSON if method in ("POST", "PUT") else _MERGE if method == "PATCH" else ""
                python = f'await client.request("{method}", "{path}")'
                words = f"kubectl get --raw {path}" if method == "GET" else ""
                yield _operation(f"{verb.capitalize()} {subresource.name}", f"{method} {path}", data, words, python)


def _operation(title: str, request: str, data: str, kubectl: str, python: str) -> ShownOperation:
    method, _, path = request.partition(" ")
    shown = "" if method == "GET" else f" --request {method}"
    curl = f'{_CURL}{shown}{f" {data}" if data else ""} "$SERVER{path}"'
    return ShownOperation(title, request, curl, kubectl, python)


class VersionReference:
    """One version of a kind."""

    def __init__(self, definition: ResourceDefinition, version: VersionDefinition, examples: Examples) -> None:
        self.definition = version
        self.name = version.name
        self.api_version = definition.api_version(version.name)
        self.description: str = version.schema.get("description", "")
        self.fields: Sequence[FieldRow] = fields_of_version(version)
        self.rules = rules_of_version(version)
        self.examples = examples.of(definition, version)
        self.facts = [*_facts(definition, version)]


def _facts(definition: ResourceDefinition, version: VersionDefinition) -> Iterator[str]:
    if len(definition.versions) > 1 and version.name == definition.stored_as:
        yield "stored"
    if version.deprecated:
        yield version.deprecation_warning or "deprecated"
    if version.selectable:
        yield f"field selectors: {', '.join(version.selectable)}"


class KindReference:
    """A kind, its versions with the preferred one first."""

    def __init__(self, served: Served, examples: Examples) -> None:
        self.served = served
        self.definition = served.definition
        self.name = self.definition.names.kind
        self.versions = [
            VersionReference(self.definition, version, examples) for version in self.definition.served_versions()
        ]
        self.changes: Sequence[VersionChanges] = changes_of(served)

    @property
    def file(self) -> str:
        return f"{self.name.lower()}.{self.definition.group or 'core'}.html"

    @property
    def summary(self) -> str:
        """The first sentence of what its preferred version says of itself."""
        text = self.versions[0].description if self.versions else ""
        return " ".join(text.split("\n\n")[0].split())


def facts_of(kind: KindReference) -> Sequence[str]:
    """What is the same in all versions."""
    definition = kind.definition
    names = [definition.names.plural, *definition.names.short_names]
    return [
        definition.scope.lower(),
        f"kubectl get {', '.join(names)}",
        *(f"in {category}" for category in definition.names.categories),
    ]


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
