"""Facts about the kinds that run pods: apps, batch, autoscaling and policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from oarlock.apps.kinds.released.facts import KindFacts
from oarlock.apps.kinds.released.tables import age, flag, number, text
from oarlock.schema.definition import Scale

__all__ = ["WORK"]

_REPLICAS = Scale(".spec.replicas", ".status.replicas", ".spec.selector")
_PODS = (text("Containers", wide=True), text("Images", wide=True), text("Selector", wide=True))

_HORIZONTAL: Final = KindFacts(
    "autoscaling",
    "v1",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    short_names=("hpa",),
    categories=("all",),
    status=True,
    columns=(
        text("Reference"),
        text("Targets"),
        text("MinPods"),
        number("MaxPods"),
        number("Replicas"),
        age(),
    ),
)

WORK: Final = (
    KindFacts(
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        columns=(text("Controller"), number("Revision"), age()),
    ),
    KindFacts(
        "apps",
        "v1",
        "DaemonSet",
        "daemonsets",
        short_names=("ds",),
        categories=("all",),
        status=True,
        generation=True,
        columns=(
            number("Desired"),
            number("Current"),
            number("Ready"),
            number("Up-to-date"),
            number("Available"),
            text("Node Selector"),
            age(),
            *_PODS,
        ),
    ),
    KindFacts(
        "apps",
        "v1",
        "Deployment",
        "deployments",
        short_names=("deploy",),
        categories=("all",),
        status=True,
        generation=True,
        scale=_REPLICAS,
        columns=(
            text("Ready", "Number of the pod with ready state"),
            number("Up-to-date"),
            number("Available"),
            age(),
            *_PODS,
        ),
    ),
    KindFacts(
        "apps",
        "v1",
        "ReplicaSet",
        "replicasets",
        short_names=("rs",),
        categories=("all",),
        status=True,
        generation=True,
        scale=_REPLICAS,
        selectable=(".status.replicas",),
        columns=(number("Desired"), number("Current"), number("Ready"), age(), *_PODS),
    ),
    KindFacts(
        "apps",
        "v1",
        "StatefulSet",
        "statefulsets",
        short_names=("sts",),
        categories=("all",),
        status=True,
        generation=True,
        scale=_REPLICAS,
        columns=(text("Ready"), age(), text("Containers", wide=True), text("Images", wide=True)),
    ),
    KindFacts(
        "batch",
        "v1",
        "CronJob",
        "cronjobs",
        short_names=("cj",),
        categories=("all",),
        status=True,
        generation=True,
        columns=(
            text("Schedule"),
            text("Timezone"),
            flag("Suspend"),
            number("Active"),
            text("Last Schedule"),
            age(),
            *_PODS,
        ),
    ),
    KindFacts(
        "batch",
        "v1",
        "Job",
        "jobs",
        categories=("all",),
        status=True,
        generation=True,
        gc_default="orphan",
        selectable=(".status.successful",),
        columns=(text("Status"), text("Completions"), text("Duration"), age(), *_PODS),
    ),
    replace(_HORIZONTAL, version="v2"),
    _HORIZONTAL,
    KindFacts(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        short_names=("pdb",),
        status=True,
        generation=True,
        columns=(text("Min Available"), text("Max Unavailable"), number("Allowed Disruptions"), age()),
    ),
)
