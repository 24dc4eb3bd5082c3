"""An operator in kopf: it takes moorings, sees to their boats, and must be asked before one goes."""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False  # there are no events to post
    settings.scanning.disabled = True  # nor are there definitions that come and go
    settings.networking.error_backoffs = [0.1] * 100
    settings.watching.reconnect_backoff = 0.1
    settings.persistence.finalizer = "moorings.example.com/operator"


@kopf.on.create("moorings.example.com", "v1", "moorings")
@kopf.on.resume("moorings.example.com", "v1", "moorings")
def take(patch: kopf.Patch, **_: Any) -> None:
    patch.status["phase"] = "Taken"


@kopf.on.create("moorings.example.com", "v1", "moorings", field="spec.boats")
@kopf.on.update("moorings.example.com", "v1", "moorings", field="spec.boats")
def moor(new: int, patch: kopf.Patch, retry: int, **_: Any) -> None:
    if new > 5 and not retry:
        raise kopf.TemporaryError("the tide is out", delay=0.1)
    patch.status["boats"] = new


@kopf.on.delete("moorings.example.com", "v1", "moorings")
def leave(name: str, labels: kopf.Labels, **_: Any) -> None:
    if "stay" in labels:
        raise kopf.TemporaryError(f"{name} stays", delay=0.1)
