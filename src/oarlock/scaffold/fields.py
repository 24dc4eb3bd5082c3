"""Fields of a spec as a command line says them: ``size:int=3``, ``extras:list[str]``, ``colour:red|green``.

Must not know: files. See also: `names`.
"""

from __future__ import annotations

import keyword
import re
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.scaffold.names import ScaffoldError
from oarlock.schema.types.shapes import Model

TYPES = {
    "str": "example",
    "int": 1,
    "float": 1.5,
    "bool": True,
    "bytes": "ZXhhbXBsZQ==",
    "datetime": "2026-01-01T00:00:00Z",
    "Quantity": "500m",
    "IntOrString": 8080,
    "JSON": {"example": True},
}
"""Each type of a field, with a value for samples."""

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_CHOICES = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]*(\|[A-Za-z0-9][-A-Za-z0-9_.]*)+")


@dataclass(frozen=True, slots=True)
class SpecField:
    """A field: its name in Python, its hint, its default as Python writes it (empty if required), and a value."""

    name: str
    hint: str
    default: str
    sample: Any

    @property
    def wire(self) -> str:
        """Its name for clients."""
        first, *more = self.name.split("_")
        return first + "".join(word.capitalize() for word in more)

    @property
    def source(self) -> str:
        """Its line in a class."""
        return f"{self.name}: {self.hint}" + (f" = {self.default}" if self.default else "")

    def names(self) -> set[str]:
        """What of `oarlock`, `datetime` and `typing` the hint names."""
        return set(re.findall(r"\b(datetime|Quantity|IntOrString|JSON|Literal)\b", self.hint.partition('["')[0]))


def read_fields(texts: tuple[str, ...]) -> list[SpecField]:
    """All fields. Raises `ScaffoldError` for one that has no meaning, or is there twice."""
    found: dict[str, SpecField] = {}
    for text in texts:
        field = read_field(text)
        if field.name in found:
            raise ScaffoldError(f"--field {text}: there are two fields called {field.name}")
        found[field.name] = field
    return list(found.values())


def read_field(text: str) -> SpecField:
    """One field. Raises `ScaffoldError`."""
    name, colon, rest = text.partition(":")
    hint, equals, default = rest.partition("=")
    if not colon or not hint:
        raise ScaffoldError(f"--field {text}: write NAME:TYPE or NAME:TYPE=DEFAULT, such as size:int=3")
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or hasattr(Model, name):
        raise ScaffoldError(
            f"--field {text}: {name!r} isn't a valid field name: use lower-case words with _ between them, no keyword "
            f"of Python; clients see camelCase"
        )
    hint, sample, plain = _typed(hint.strip(), text)
    if not equals and hint.endswith("| None"):
        return SpecField(name, hint, "None", sample)
    if not equals:
        return SpecField(name, hint, {"list": "[]", "dict": "{}"}.get(plain, ""), sample)
    return SpecField(name, hint, _default(plain, hint, default, text), sample)


def _typed(hint: str, text: str) -> tuple[str, Any, str]:
    """The hint as Python writes it, a value of it, and what kind of type it is."""
    if hint.endswith("?"):
        inner, sample, plain = _typed(hint[:-1], text)
        return f"{inner} | None", sample, plain
    if hint in TYPES:
        return hint, TYPES[hint], hint
    if _CHOICES.fullmatch(hint):
        choices = hint.split("|")
        return f"Literal[{', '.join(_quoted(choice) for choice in choices)}]", choices[0], "choice"
    wrapped = re.fullmatch(r"list\[(\w+)\]|dict\[str, ?(\w+)\]", hint)
    inner = (wrapped[1] or wrapped[2]) if wrapped else ""
    if wrapped and inner in TYPES:
        if wrapped[1]:
            return f"list[{inner}]", [TYPES[inner]], "list"
        return f"dict[str, {inner}]", {"example": TYPES[inner]}, "dict"
    raise ScaffoldError(
        f"--field {text}: {hint!r} isn't a type: write {', '.join(TYPES)}, list[X], dict[str,X], a choice such as "
        f"small|large, or one of them with ? if it may be absent"
    )


def _default(plain: str, hint: str, default: str, text: str) -> str:
    try:
        if plain == "int":
            return str(int(default))
        if plain == "float":
            return repr(float(default))
    except ValueError:
        raise ScaffoldError(f"--field {text}: {default!r} is no {plain}") from None
    if plain == "bool":
        if default.lower() not in ("true", "false"):
            raise ScaffoldError(f"--field {text}: {default!r} isn't a bool: write true or false")
        return default.lower().capitalize()
    if plain == "choice" and f'"{default}"' not in hint:
        raise ScaffoldError(f"--field {text}: {default!r} is none of its choices")
    if plain not in ("str", "choice", "Quantity"):
        raise ScaffoldError(f"--field {text}: a default of {plain} is written in the class: leave it out here")
    return _quoted(default)


def _quoted(text: str) -> str:
    """A text as ruff formats it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
