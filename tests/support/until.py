"""Waiting in tests with processes, where no event tells that something has happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from oarlock.testing import InMemory

WAIT_S = 60.0


def until(look: Callable[[], Any]) -> Any:
    """What `look` returns once it is true."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it wasn't so within {WAIT_S:g} s")


OWN = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"


async def settled(api: InMemory) -> None:
    """Wait until a control plane has written its own ConfigMap, so that policies and webhooks aren't asked about it."""
    async with asyncio.timeout(WAIT_S):
        while (await api.get(OWN)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0)
