"""Which of a control plane's admission plugins the names of Kubernetes' plugins switch.

A plugin has the name of its class unless it says ``kubernetes_name``. One whose name isn't Kubernetes' can't be
switched: it is a part of what its kinds mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oarlock.apps.controlplane.options import KUBERNETES_PLUGINS
from oarlock.policy.admission.plugin import Admission

__all__ = ["missing_plugins", "plugins_left"]


def plugins_left(plugins: Iterable[Admission[Any]], disabled: Sequence[str]) -> list[Admission[Any]]:
    """The plugins that aren't disabled."""
    return [one for one in plugins if _name(one) not in disabled or _name(one) not in KUBERNETES_PLUGINS]


def missing_plugins(plugins: Iterable[Admission[Any]], enabled: Sequence[str]) -> list[str]:
    """The names of what shall be enabled and isn't here."""
    names = {_name(one) for one in plugins}
    return [name for name in enabled if name not in names]


def _name(plugin: Admission[Any]) -> str:
    return str(getattr(plugin, "kubernetes_name", type(plugin).__name__))
