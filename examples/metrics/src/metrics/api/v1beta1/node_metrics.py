"""metrics.k8s.io/v1beta1: what a node uses, as clients see it."""

from datetime import datetime
from typing import Annotated

from oarlock import Doc, Model, Quantity, Resource


class Usage(Model):
    """What is used."""

    cpu: Quantity
    memory: Quantity


class NodeMetrics(
    Resource,
    group="metrics.k8s.io",
    version="v1beta1",
    plural="nodes",
    singular="node",
    scope="Cluster",
):
    """What a node used in the `window` before `timestamp`."""

    timestamp: datetime
    window: Annotated[str, Doc("A duration, such as 10s.")]
    usage: Usage
