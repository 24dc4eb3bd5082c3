"""One class in our own server, and as a definition with webhooks in a control plane: writes end alike in both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from home_requests import DIFFERENT, STEPS, WRECK, WRECKS, Step, told
from webhook_home import harbour, in_cluster, wreck_known

from oarlock.testing.server import InMemory

pytestmark = pytest.mark.anyio


async def answered(api: InMemory, step: Step) -> Any:
    live = (await api.get(step.object_path)).json if step.live else {}
    body = step.body_on(live)
    return await api.request(step.method, step.path, body, {"content-type": step.content_type} if body else {})


async def all_told(api: InMemory) -> dict[str, Any]:
    made = await api.post(WRECKS, WRECK)
    assert made.status == 201
    await wreck_known(api)
    return {step.name: told(await answered(api, step)) for step in STEPS}


async def test_a_write_ends_as_in_our_own_server_but_where_a_definition_cannot(tmp_path: Path) -> None:
    async with InMemory(harbour()) as api:
        own = await all_told(api)
    async with in_cluster(tmp_path) as api:
        webhooks = await all_told(api)
    differ = [name for name in own if own[name] != webhooks[name]]
    shown = {name: (own[name], webhooks[name]) for name in differ if name not in DIFFERENT}
    assert shown == {}, json.dumps(shown, indent=1)
    assert set(differ) == set(DIFFERENT)
