"""The reference of an API as Markdown: a page for each kind, and one that lists them. See also: `html_pages`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oarlock.cli.publishing.markup import markdown_code, markdown_text
from oarlock.cli.publishing.operations import operations_of
from oarlock.cli.publishing.pages import KindReference, VersionReference, facts_of


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
        lines += _version(kind, version)
    for changes in kind.changes:
        if changes.texts:
            lines += ["", f"## From {changes.older} to {changes.newer}", ""]
            lines += [f"- {markdown_text(text)}" for text in changes.texts]
    return "\n".join(lines) + "\n"


def _version(kind: KindReference, version: VersionReference) -> Iterator[str]:
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
