"""One class in our own server, and as a definition with webhooks in a control plane: writes end alike in both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from home_requests import DIFFERENT, all_told
from webhook_home import harbour, in_cluster

from oarlock.testing.server import InMemory

pytestmark = pytest.mark.anyio


async def test_a_write_ends_as_in_our_own_server_but_where_a_definition_cannot(tmp_path: Path) -> None:
    async with InMemory(harbour()) as api:
        own = await all_told(api)
    async with in_cluster(tmp_path) as api:
        webhooks = await all_told(api)
    differ = [name for name in own if own[name] != webhooks[name]]
    shown = {name: (own[name], webhooks[name]) for name in differ if name not in DIFFERENT}
    assert shown == {}, json.dumps(shown, indent=1)
    assert set(differ) == set(DIFFERENT)
