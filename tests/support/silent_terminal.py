"""A terminal nobody looks at."""

from __future__ import annotations


class Silent:
    """Prints nothing."""

    def print_result(self, line: str) -> None: ...

    def print_message(self, line: str) -> None: ...
