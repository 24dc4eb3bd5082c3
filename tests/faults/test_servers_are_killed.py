"""Servers on one store are killed or paused under load: clients resume at the others, and were told nothing wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
from pathlib import Path

import pytest
from served_crowd import crowd_at_servers, more

from stores import Store

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]

KILLS = int(os.environ.get("OARLOCK_FAULT_KILLS", 3))
PAUSES = int(os.environ.get("OARLOCK_FAULT_PAUSES", 1))
PAUSE_S = float(os.environ.get("OARLOCK_FAULT_PAUSE_S", 2))
SEED = int(os.environ.get("OARLOCK_FAULT_SEED", 17))

log = logging.getLogger("oarlock.testing.faults")


async def test_no_acknowledged_write_is_lost_and_no_event_missing_when_servers_are_killed(
    store: Store, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    slowest = 0.0
    async with crowd_at_servers(store, tmp_path, SEED) as (servers, crowd):
        for kill in range(1, KILLS + 1):
            await more(crowd, dice.randrange(10, 40))
            victims = servers if kill % 3 == 0 else [dice.choice(servers)]
            for victim in victims:
                victim.kill()
            if len(victims) < len(servers):
                slowest = max(slowest, await more(crowd, 20))
            for victim in victims:
                await asyncio.to_thread(victim.start)
        verdict = await crowd.finish()
        notes = crowd.notes
    log.info("%d kills, %s; %d times resumed, %d times expired", KILLS, verdict, notes.broken, notes.expired)
    log.info("longest request %.2f s, 20 events of the other server within %.2f s", notes.longest_s, slowest)
    assert not verdict.problems, f"seed {SEED}: {verdict}"
    assert notes.broken >= KILLS


async def test_a_paused_server_disturbs_nobody_and_then_has_the_complete_history(store: Store, tmp_path: Path) -> None:
    slowest = 0.0
    async with crowd_at_servers(store, tmp_path, SEED) as (servers, crowd):
        dice = random.Random(SEED)
        for _ in range(PAUSES):
            paused = dice.choice(servers)
            await more(crowd, 20)
            os.kill(paused.pid, signal.SIGSTOP)
            # On a file it may have been in the middle of a commit: then the others wait for it.
            goes_on = asyncio.get_running_loop().call_later(PAUSE_S, os.kill, paused.pid, signal.SIGCONT)
            slowest = max(slowest, await more(crowd, 20))
            await asyncio.sleep(max(0, goes_on.when() - asyncio.get_running_loop().time()))
            await more(crowd, 40)
        verdict = await crowd.finish()
        notes = crowd.notes
    log.info("%d pauses of %g s, %s", PAUSES, PAUSE_S, verdict)
    log.info("longest request %.2f s, 20 events of the other server within %.2f s", notes.longest_s, slowest)
    assert not verdict.problems, f"seed {SEED}: {verdict}"
