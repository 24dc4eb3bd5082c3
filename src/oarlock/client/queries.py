"""The query parameters of lists and watches, with Kubernetes' names and meanings.

Source: k8s.io/apimachinery ``meta/v1`` ListOptions.
"""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.meta.dataclass import dataclass
from oarlock.meta.options_parse import QueryPairs

__all__ = ["WATCH_S", "ListQuery", "pairs"]


WATCH_S = 300
"""How long a server is asked to keep a watch open. It is resumed, so nobody sees the end."""


def pairs(parameters: Mapping[str, str]) -> QueryPairs:
    """The parameters that aren't empty."""
    return [(name, value) for name, value in parameters.items() if value]


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list or watch selects. `page_size` is how many objects come in one answer; 0: all in one.

    `include_uninitialized` asks for objects too that wait for their initializers.
    """

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    page_size: int = 500
    include_uninitialized: bool = False

    def pairs(self, continue_token: str) -> QueryPairs:
        """The parameters of a list."""
        version = "" if continue_token else self.resource_version
        limit = {"limit": str(self.page_size)} if self.page_size else {}
        return pairs({**self._selectors(), "resourceVersion": version, **limit, "continue": continue_token})

    def watch_pairs(self, resource_version: str) -> QueryPairs:
        """The parameters of a watch that begins at `resource_version`."""
        timeout = {"timeoutSeconds": str(WATCH_S), "allowWatchBookmarks": "true", "watch": "true"}
        return pairs({**self._selectors(), "resourceVersion": resource_version, **timeout})

    def watch_list_pairs(self) -> QueryPairs:
        """The parameters of a watch that begins with everything that exists (KEP-3157)."""
        initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return (*self.watch_pairs(""), *pairs(initial))

    def _selectors(self) -> dict[str, str]:
        waiting = "true" if self.include_uninitialized else ""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {**selectors, "includeUninitialized": waiting}
