"""`Anonymous`: which requests without credentials are let in, as ``system:anonymous``.

See also: ``server.filters.access``, which asks. Source: k8s.io/apiserver ``authentication/request/anonymous``.
"""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Requests without credentials for one of `paths`, compared exactly, are let in; for any path if that is None."""

    paths: frozenset[str] | None

    def may_ask(self, path: str) -> bool:
        return self.paths is None or path in self.paths


NOBODY = Anonymous(frozenset())
