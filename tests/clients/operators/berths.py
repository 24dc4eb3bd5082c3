"""An operator in kopf with peering, which starts before its definition is there, and watches it come."""

from __future__ import annotations

from typing import Any

import kopf

HARBOUR = ("harbour.example.com", "v1", "berths")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.peering.mandatory = True
    settings.networking.error_backoffs = [0.1] * 100
    settings.watching.reconnect_backoff = 0.1


@kopf.on.create(*HARBOUR)
@kopf.on.update(*HARBOUR)
def moor(spec: kopf.Spec, patch: kopf.Patch, body: kopf.Body, **_: Any) -> None:
    patch.status["boats"] = spec["depth"] * 2
    kopf.info(body, reason="Moored", message="every boat has its place")


@kopf.on.delete(*HARBOUR)
def leave(**_: Any) -> None:
    """Only its finalizer matters."""


@kopf.on.event("apiextensions.k8s.io", "v1", "customresourcedefinitions")
def defined(name: str, type: str | None, logger: kopf.Logger, **_: Any) -> None:
    logger.info(f"definition {name}: {type}")
