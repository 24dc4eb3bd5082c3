"""HTML and Markdown in which every text is a text: whatever a description says, it becomes no markup.

HTML is made of `Element`s alone, which are escaped when they are printed. Must not know: what the pages say.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from oarlock.meta.dataclass import dataclass

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
