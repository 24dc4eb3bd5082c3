"""Regular expressions of schemas: RE2, in linear time for any pattern and text.

`CompiledPattern` caches short texts that matched, because objects are written repeatedly with the
same values and a call of the library costs more than a lookup. See also: `validation`.
Source: OpenAPI v3 ``pattern``; RE2 is the engine of Kubernetes' own checks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

__all__ = ["CompiledPattern", "PatternError"]

_REMEMBERED = 256
_SHORT = 64
_SHORT_SOURCE = 128

_GO_WORDS = (
    ("no argument for repetition operator: ", "missing argument to repetition operator: "),
    ("bad repetition operator: ", "invalid nested repetition operator: "),
    ("invalid repetition size: ", "invalid repeat count: "),
    ("missing ]: ", "missing closing ]: "),
    ("missing ): ", "missing closing ): "),
    ("unexpected ): ", "unexpected ): "),
    ("trailing \\", "trailing backslash at end of expression"),
    ("invalid perl operator: ", "invalid or unsupported Perl syntax: "),
)


class PatternError(ValueError):
    """The pattern is invalid; the message is that of Go."""


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    return options


def _compiled(source: str) -> Any:
    return re2.compile(source.encode(), _options())


@lru_cache(256)
def _compiled_short(source: str) -> Any:
    """One for all fields that have the same pattern, in whatever definition."""
    return _compiled(source)


class CompiledPattern:
    """A compiled pattern. PatternError when it can't be."""

    __slots__ = ("_matched", "_search", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self._matched: set[str] = set()
        try:
            self._search = (_compiled_short(source) if len(source) <= _SHORT_SOURCE else _compiled(source)).search
        except re2.error as error:
            raise PatternError(_worded(error)) from error
        except UnicodeEncodeError as error:
            raise PatternError("error parsing regexp: invalid UTF-8") from error

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        results = self._matched
        if text in results:
            return True
        if self._search(text.encode("utf-8", "surrogatepass")) is None:
            return False
        if len(text) <= _SHORT:
            if len(results) >= _REMEMBERED:
                results.clear()
            results.add(text)
        return True


def _worded(error: re2.error) -> str:
    message = error.args[0] if error.args else ""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    for ours, theirs in _GO_WORDS:
        if text.startswith(ours):
            rest = text[len(ours) :]
            return f"error parsing regexp: {theirs}" + (f"`{rest}`" if theirs.endswith(": ") else "")
    what, colon, where = text.partition(": ")
    return f"error parsing regexp: {what}: `{where}`" if colon else f"error parsing regexp: {text}"
