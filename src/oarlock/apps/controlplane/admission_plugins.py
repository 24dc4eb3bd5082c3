"""Which of a control plane's admission plugins the names of Kubernetes' plugins switch.

A plugin has the name of its class unless it has a ``name``. One whose name isn't Kubernetes' can't be
switched: it is a part of what its kinds mean. A few are off unless they are enabled, as in kube-apiserver. They are
asked in Kubernetes' order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oarlock.apps.controlplane.options import KUBERNETES_PLUGINS
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.policy.admission.plugin import Admission

__all__ = ["in_order", "missing_plugins", "plugins_left"]

Plugin = Admission[Any] | AdmissionPlugin

_OFF_BY_DEFAULT = frozenset(("OwnerReferencesPermissionEnforcement",))

_LAST = (
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
"""Those that Kubernetes asks after all others: what the others have made is judged, then charged."""


def in_order(plugins: Iterable[Plugin]) -> list[Plugin]:
    """The plugins in the order in which Kubernetes asks them; the others as they come."""
    return sorted(plugins, key=lambda one: _LAST.index(_name(one)) + 1 if _name(one) in _LAST else 0)


def plugins_left(plugins: Iterable[Plugin], enabled: Sequence[str], disabled: Sequence[str]) -> list[Plugin]:
    """The plugins that are on: all that aren't disabled, and of those that are off by default the enabled ones."""
    off = (KUBERNETES_PLUGINS & {*disabled}) | (_OFF_BY_DEFAULT - {*enabled})
    return [one for one in plugins if _name(one) not in off]


def missing_plugins(plugins: Iterable[Plugin], enabled: Sequence[str]) -> list[str]:
    """The names of what shall be enabled and isn't here."""
    names = {_name(one) for one in plugins}
    return [name for name in enabled if name not in names]


def _name(plugin: Plugin) -> str:
    return str(getattr(plugin, "name", type(plugin).__name__))
