"""The defaults of pods and of templates of pods that depend on something. Source: Kubernetes' defaults of core/v1.

Pure functions that change an object in place; fixed defaults are in ``apps.kinds.released``. See also: `defaulting`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from oarlock.apps.kinds.common.trees import at, below
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta.json_trees import Tree

__all__ = ["settle_pod", "settle_template"]

_TAG = re.compile(r":(?P<tag>[\w][\w.-]{0,127})$", re.ASCII)
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]*$", re.ASCII)
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def settle_pod(tree: Tree) -> None:
    """A pod of its own."""
    spec = tree.get("spec")
    if spec is None:
        return
    spec.setdefault("enableServiceLinks", True)
    _same_account(spec)
    _settle_spec(spec)
    for container in _containers(spec):
        _request_limits(container)
    _request_together(spec)
    _host_ports(spec)


def settle_template(template: Tree | None) -> None:
    """A template in another kind."""
    if template is not None:
        template.setdefault("metadata", {})
    spec = (template or {}).get("spec")
    if spec is not None:
        _same_account(spec)
        _settle_spec(spec)
        _host_ports(spec)


def _settle_spec(spec: Tree) -> None:
    """What pods and templates have in common."""
    for container in _containers(spec):
        if "stopSignal" in (container.get("lifecycle") or ()):
            _without_signal(container)
        container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
        for variable in container.get("env") or ():
            _divide(at(variable, "valueFrom.resourceFieldRef"))
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            probe = container.get(name)
            if probe and "httpGet" in probe:
                probe["httpGet"].setdefault("scheme", "HTTP")
    for volume in spec.get("volumes") or ():
        if not volume.keys() - {"name"}:
            volume["emptyDir"] = {}
        claim = at(volume, "ephemeral.volumeClaimTemplate")
        if claim is not None:
            claim.setdefault("metadata", {})
            if claim.get("spec") is not None:
                claim["spec"].setdefault("volumeMode", "Filesystem")
        image = volume.get("image")
        if image is not None:
            image.setdefault("pullPolicy", _pull_policy(image.get("reference") or ""))
        for item in at(volume, "downwardAPI.items", ()):
            _divide(item.get("resourceFieldRef"))
        for source in at(volume, "projected.sources", ()):
            for item in at(source, "downwardAPI.items", ()):
                _divide(item.get("resourceFieldRef"))


def _without_signal(container: Tree) -> None:
    """A signal to stop by is an early feature of Kubernetes, which is off."""
    del container["lifecycle"]["stopSignal"]
    if not container["lifecycle"]:
        del container["lifecycle"]


def _divide(resource: Tree | None) -> None:
    """Go writes a quantity also where there is none."""
    if resource is not None:
        resource.setdefault("divisor", "0")


def _containers(spec: Tree) -> Iterator[Tree]:
    for name in _CONTAINERS:
        yield from spec.get(name) or ()


def _pull_policy(image: str) -> str:
    """Always for an image without a fixed tag; not for what is no image."""
    if "@" in image or not _IMAGE.match(image):
        return "IfNotPresent"
    tag = _TAG.search(image.rpartition("/")[2])
    return "Always" if tag is None or tag["tag"] == "latest" else "IfNotPresent"


def _request_limits(container: Tree) -> None:
    """What is limited but not requested is requested up to the limit."""
    limits = at(container, "resources.limits")
    if limits:
        requests = below(container["resources"], "requests")
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _request_together(spec: Tree) -> None:
    """A pod that limits cpu or memory as a whole requests what its containers do, or else the limit."""
    resources = spec.get("resources")
    if not resources or not resources.get("limits"):
        return
    requests = {**(resources.get("requests") or {})}
    for name, limit in resources["limits"].items():
        wanted = [
            quantity(at(container, "resources.requests", {}).get(name)) for container in spec.get("containers") or ()
        ]
        given = [amount for amount in wanted if amount]
        requests.setdefault(name, str(sum(given[1:], start=given[0])) if given else limit)
    resources["requests"] = requests


def _same_account(spec: Tree) -> None:
    """``serviceAccount`` is the old name of ``serviceAccountName``; both say the same."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _host_ports(spec: Tree) -> None:
    if spec.get("hostNetwork"):
        for container in _containers(spec):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
