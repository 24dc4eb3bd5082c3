"""Regular expressions in rules: RE2, with the semantics of Go's find and extract.

See also: `patterns` of schemas, which only match. Source: RE2 syntax; Kubernetes' regex library for CEL.
"""

from __future__ import annotations

import re2

from oarlock.meta.memo import Memo
from oarlock.schema.structural.patterns import CompiledPattern

__all__ = ["Regex", "regex_of"]


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


class Regex:
    """A compiled expression. PatternError with Go's message if it is invalid."""

    __slots__ = ("_compiled", "matches", "source")

    def __init__(self, source: str) -> None:
        pattern = CompiledPattern(source)
        self.source = source
        self.matches = pattern.found_in
        self._compiled = re2.compile(source.encode(), _options())

    def find(self, text: str) -> str:
        """The first match; empty when there is none."""
        match = self._compiled.search(text.encode("utf-8", "surrogatepass"))
        return "" if match is None else match[0].decode("utf-8", "surrogatepass")

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The first `limit` non-overlapping matches; all if it is negative."""
        matches: list[str] = []
        if limit == 0:
            return matches
        end = 0
        for match in self._compiled.finditer(text.encode("utf-8", "surrogatepass")):
            if matches and match.start() == match.end() == end:
                continue  # Go has no empty match right behind a match
            end = match.end()
            matches.append(match[0].decode("utf-8", "surrogatepass"))
            if len(matches) == limit:
                break
        return matches


# By default RE2 may use 8 MiB for one expression, and a client may send both the expression and the text.
_compiled: Memo[str, Regex] = Memo(64 * 1024 * 1024, entry_bytes=8 * 1024 * 1024)


def regex_of(source: str) -> Regex:
    """The compiled `source`, a pattern from an object; the last few are cached. A rule's own are compiled with it."""
    regex = _compiled.get(source)
    if regex is None:
        regex = Regex(source)
        _compiled.put(source, regex, len(source))
    return regex
