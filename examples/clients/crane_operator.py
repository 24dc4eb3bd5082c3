"""An operator in kopf: a Deployment that is ready says so in an annotation."""

from __future__ import annotations

from typing import Any

import kopf

READY = "cranes.example.com/ready"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.persistence.finalizer = "cranes.example.com/operator"


@kopf.on.login()
def login(**given: Any) -> kopf.ConnectionInfo | None:
    """By $KUBECONFIG as it is now. The package `kubernetes`, which kopf asks otherwise, reads it when imported."""
    return kopf.login_with_kubeconfig(**given)


@kopf.on.event("apps", "v1", "deployments", labels={"operated": "yes"})
def ready(status: kopf.Status, annotations: kopf.Annotations, patch: kopf.Patch, **_: Any) -> None:
    count = str(status.get("readyReplicas", 0))
    if annotations.get(READY) != count:
        patch.metadata.annotations[READY] = count
