"""The headers in which a front proxy names the user: what they are called, and that nobody else's get further.

Every server removes them, so this module loads no cryptography, unlike `front_proxy`, which believes them.
Source: k8s.io/apiserver ``authentication/request/headerrequest``.
"""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass

STANDARD = "x-remote-"


@dataclass(frozen=True, slots=True)
class FrontProxyNames:
    """What a front proxy calls its headers, and itself. All names of headers are in lower case.

    `allowed_names` are the common names its certificate may have; empty for any.
    """

    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)


class FrontProxyHeaders:
    """The headers that claim to be a front proxy's word, by name: no request keeps them behind authentication.

    Those with the standard prefix always, and the configured ones. Some backends take ``_`` for ``-``, so here they are
    the same.
    """

    def __init__(self, names: FrontProxyNames | None = None) -> None:
        self.names: frozenset[str] = frozenset()
        self.prefixes: tuple[str, ...] = (STANDARD,)
        if names is not None:
            self.add(names)

    def add(self, names: FrontProxyNames) -> None:
        """Remove these too, from the next request on."""
        single = (*names.username_headers, *names.uid_headers, *names.group_headers)
        self.names |= {name.replace("_", "-") for name in single}
        prefixes = (prefix.replace("_", "-") for prefix in names.extra_prefixes)
        self.prefixes = tuple(dict.fromkeys((*self.prefixes, *prefixes)))

    def has(self, name: str) -> bool:
        """Whether a header in lower case is one of them."""
        name = name.replace("_", "-")
        return name in self.names or name.startswith(self.prefixes)
