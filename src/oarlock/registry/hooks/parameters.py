"""Query parameters of subresources: the keyword-only parameters of their methods.

    async def log(self, name: str, *, follow: bool = False, tail_lines: int | None = None) -> AsyncIterator[bytes]: ...

accepts ``?follow=true&tailLines=20``. A parameter without a default is required; a list takes all values of its name.
Must not know: how a query string is written. See also: `subresource`, whose methods have them.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest
from oarlock.meta.go.gotext import quote
from oarlock.meta.options_parse import parse_int64
from oarlock.schema.definition import QueryParameter
from oarlock.schema.types.declaring import DuplicateError, HookError
from oarlock.schema.types.shapes import camel

__all__ = ["Argument", "arguments_of", "values_of"]

_TYPES: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_TRUE, _FALSE = ("true", "1", ""), ("false", "0")


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of the method (`attribute`) and its name in the query (`published`)."""

    attribute: str
    published: QueryParameter


def arguments_of(function: Callable[..., Any], hints: Mapping[str, Any], subject: str) -> tuple[Argument, ...]:
    """The keyword-only parameters of `function`. Raises HookError for a type that a query can't have."""
    found: dict[str, Argument] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        base, many = _take_apart(hints.get(parameter.name))
        if base not in _TYPES:
            advice = "bool, int, float, str, one of them | None, or a list of one of them"
            raise HookError(subject, f"{parameter.name!r} can't be read from a query", advice)
        published = QueryParameter(
            camel(parameter.name), _TYPES[base], many, required=parameter.default is inspect.Parameter.empty
        )
        if published.name in found:
            raise DuplicateError(subject, f"two parameters are {published.name!r} in the query")
        found[published.name] = Argument(parameter.name, published)
    return tuple(found.values())


def values_of(arguments: Sequence[Argument], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The keyword arguments in a query. Missing ones get the method's defaults; unknown ones are ignored.

    If a name that isn't a list is given twice, the first value counts, as in every query of the API. Raises BadRequest.
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        published = argument.published
        texts = [value for key, value in pairs if key == published.name]
        if not texts:
            if published.required:
                raise BadRequest(f"the query parameter {published.name} is required")
            continue
        read = _READERS[published.type]
        if published.many:
            values[argument.attribute] = [read(published.name, text) for text in texts]
        else:
            values[argument.attribute] = read(published.name, texts[0])
    return values


def _take_apart(hint: Any) -> tuple[Any, bool]:
    """The scalar type of a hint, and whether it is a list of it."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [part for part in get_args(hint) if part is not type(None)]
        if len(rest) != 1:
            return None, False
        hint = rest[0]
    if get_origin(hint) is list:
        return get_args(hint)[0], True
    return hint, False


def _boolean(name: str, text: str) -> bool:
    word = text.lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise BadRequest(f"the query parameter {name} is {quote(text)}: it must be true or false")


def _integer(name: str, text: str) -> int:
    try:
        return parse_int64(text)
    except BadRequest as error:
        raise BadRequest(f"the query parameter {name}: {error.message}") from None


def _number(name: str, text: str) -> float:
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    raise BadRequest(f"the query parameter {name} is {quote(text)}: it must be a number")


def _string(name: str, text: str) -> str:
    return text


_READERS: dict[str, Callable[[str, str], Any]] = {
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "string": _string,
}
