"""Options of what the server says of its version."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from oarlock.endpoints.version import KUBERNETES, ServerVersion, version_parts
from oarlock.meta.dataclass import dataclass
from oarlock.server.about import VERSION
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import StringType

__all__ = ["VersionOptions"]


@dataclass(frozen=True, kw_only=True, repr=False)
class VersionOptions(OptionGroup):
    title = "Version"

    kubernetes_version: str = option(
        KUBERNETES,
        StringType("VERSION"),
        "Say at /version that this server is like this Kubernetes; helm's kubeVersion and kubectl's skew go by it.",
    )
    emulated_version: str = option(
        "", StringType("VERSION"), "The emulated version at /version; --kubernetes-version unless given."
    )
    min_compatibility_version: str = option(
        "",
        StringType("VERSION"),
        "The oldest compatible version at /version; one minor version before the emulated one unless given.",
    )

    def check(self) -> Iterator[Problem]:
        parsed: list[tuple[str, tuple[int, int]]] = []
        for name in ("kubernetes_version", "emulated_version", "min_compatibility_version"):
            text = _plain(getattr(self, name))
            try:
                parsed += [(name, version_parts(text)[:2])] if text or name == "kubernetes_version" else []
            except ValueError as error:
                yield Problem(name, str(error))
                return
        for (above, newer), (below, older) in pairwise(parsed):
            if older > newer:
                yield Problem(below, f"is newer than `{above}`")

    @property
    def version(self) -> ServerVersion:
        """What ``/version`` says."""
        return ServerVersion(
            VERSION,
            self.kubernetes_version,
            _plain(self.emulated_version),
            _plain(self.min_compatibility_version),
        )


def _plain(text: str) -> str:
    """The version alone: kube-apiserver takes ``kube=1.35`` too."""
    return text.removeprefix("kube=")
