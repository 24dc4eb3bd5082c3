"""Tokens in secrets are tracked: a label of the secret says when the token was last used."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.server.assembly.identities import Identities
from oarlock.server.config import ServerConfig
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

SECRET = "/api/v1/namespaces/default/secrets/robot"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


async def labels_of(api: InMemory) -> Any:
    return (await api.get(SECRET)).json["metadata"].get("labels")


async def reviewed(api: InMemory, token: str) -> Any:
    return (await api.post(REVIEWS, {"spec": {"token": token}})).json["status"]


async def test_a_secret_says_when_its_token_was_last_used(tmp_path: Path) -> None:
    clock = VirtualClock()
    config = for_control_plane(ServerConfig(storage="memory://", data_dir=tmp_path))
    server = ControlPlane()
    api = InMemory(server, clock=clock, config=config)
    identities = server.identities = Identities(config, clock)
    api.parts.let_in(identities)
    async with api:
        await clock.run(1)
        secret = {
            "metadata": {"name": "robot", "annotations": {"kubernetes.io/service-account.name": "default"}},
            "type": "kubernetes.io/service-account-token",
        }
        assert (await api.post(SECRET.rpartition("/")[0], secret)).status == 201
        await clock.run(1)
        token = base64.b64decode((await api.get(SECRET)).json["data"]["token"]).decode()
        assert await labels_of(api) is None
        found = await reviewed(api, token)
        assert found["user"]["username"] == "system:serviceaccount:default:default"
        await clock.run(1)
        today = datetime.fromtimestamp(clock.now(), UTC).strftime("%Y-%m-%d")
        assert await labels_of(api) == {"kubernetes.io/legacy-token-last-used": today}
        marked = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": today}}}
        assert (await api.patch(SECRET, marked)).status == 200
        refused = await reviewed(api, token)
        assert (refused.get("authenticated", False), "has been marked invalid" in refused["error"]) == (False, True)
