"""metrics.k8s.io/v1beta1: what a pod uses, as clients see it."""

from datetime import datetime
from typing import Annotated

from oarlock import Doc, ListMap, Model, Resource

from .node_metrics import Usage


class ContainerMetrics(Model):
    """What a container uses."""

    name: str
    usage: Usage


class PodMetrics(
    Resource,
    group="metrics.k8s.io",
    version="v1beta1",
    plural="pods",
    singular="pod",
):
    """What the containers of a pod used in the `window` before `timestamp`."""

    timestamp: datetime
    window: Annotated[str, Doc("A duration, such as 10s.")]
    containers: Annotated[list[ContainerMetrics], ListMap("name")]
