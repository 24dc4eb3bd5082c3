"""Options of a server behind a cluster: whose rules hold for what is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import DurationType, PathType, StringListType

CLUSTER_PLUGINS: Final = (
    "NamespaceLifecycle",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
)
"""The admission plugins that go by the objects of a cluster, in the order in which they are asked."""

_NAMES = ", ".join(CLUSTER_PLUGINS)


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterRulesOptions(OptionGroup):
    title = "Rules of a cluster"

    cluster_kubeconfig: Path | None = option(
        None,
        PathType(),
        "Apply the admission rules of the cluster of this kubeconfig to what is written here: its namespaces, "
        "policies, webhooks and quotas. in-cluster is the cluster of the pod.",
        flag="kubeconfig",
    )
    cluster_rules_max_age_s: float = option(
        60.0,
        DurationType(positive=True),
        "How long the rules that are known apply while that cluster can't be reached. After that writes are refused.",
    )
    enable_admission_plugins: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        f"Run these admission plugins. With --kubeconfig all are on by default: {_NAMES}.",
    )
    disable_admission_plugins: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS"),
        "Don't run these admission plugins: those of --enable-admission-plugins, or the server's own, by their names.",
    )

    def check(self) -> Iterator[Problem]:
        if self.cluster_kubeconfig is None:
            for name in ("enable_admission_plugins", "disable_admission_plugins"):
                if getattr(self, name):
                    yield Problem(name, "has no effect without `cluster_kubeconfig`")
        for name in sorted({*self.enable_admission_plugins} & {*self.disable_admission_plugins}):
            yield Problem("enable_admission_plugins", f"{name} is in `disable_admission_plugins` too")
