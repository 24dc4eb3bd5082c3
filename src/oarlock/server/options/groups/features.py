"""Options of what a server also does: for browsers, for load balancers, for those who look into it."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import BooleanType, FractionType, SeparateListType, StringListType

__all__ = ["FeatureOptions"]


def _origin(text: str) -> str:
    """A pattern of an origin. Raises ValueError."""
    try:
        re2.compile(text)
    except re2.error:
        raise ValueError(f"{text} is no regular expression; write ^https://app[.]example[.]com$") from None
    if not text:
        raise ValueError("an empty pattern would allow every origin; write .* if that is what is meant")
    return text


def _directive(text: str) -> str:
    """A directive of Strict-Transport-Security. Raises ValueError."""
    seconds = text.removeprefix("max-age=")
    if text in ("includeSubDomains", "preload") or (seconds != text and seconds.isascii() and seconds.isdigit()):
        return text
    raise ValueError(f"{text} is no directive; write max-age=31536000,includeSubDomains,preload")


@dataclass(frozen=True, kw_only=True, repr=False)
class FeatureOptions(OptionGroup):
    title = "Features"

    cors_allowed_origins: tuple[str, ...] = option(
        (),
        SeparateListType("PATTERN", _origin),
        "Let pages of origins that this regular expression is found in read answers; anchor it: ^https://app[.]com$. "
        "Repeat it for more.",
    )
    strict_transport_security_directives: tuple[str, ...] = option(
        (),
        StringListType("DIRECTIVES", _directive),
        "Tell browsers to use TLS only, for example max-age=31536000,includeSubDomains,preload.",
    )
    goaway_chance: float = option(
        0.0,
        FractionType("CHANCE", maximum=0.02),
        "End connections of HTTP/2 with this chance at each request, so that clients are spread over servers again.",
    )
    profiling: bool = option(
        False,
        BooleanType(),
        "Serve /debug/pprof: stacks of threads and tasks, and a profile; for whom authorization allows it.",
    )
    debug_pages: bool = option(
        False,
        BooleanType(),
        "Serve /configz, /flagz and /statusz: the options in force, and what runs; for whom authorization allows it.",
    )

    def check(self) -> Iterator[Problem]:
        directives = self.strict_transport_security_directives
        if directives and not any(directive.startswith("max-age=") for directive in directives):
            yield Problem("strict_transport_security_directives", "needs max-age=SECONDS")
