"""Three members of etcd: the leader is killed or suspended, a way is silent, there is no majority. Nobody is misled."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from databases import EtcdCluster
from served_crowd import more

from oarlock.storage.backend import Unavailable
from oarlock.storage.etcd.address import etcd_address
from oarlock.storage.etcd.backend import EtcdBackend
from oarlock.storage.etcd.client import EtcdDeadlines
from oarlock.testing.contracts.clients import Crowd
from oarlock.testing.contracts.support import END, START
from oarlock.testing.proxy import TcpProxy
from stores import RealClock, Store

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]

ROUNDS = int(os.environ.get("OARLOCK_FAULT_ROUNDS", 1))
SEED = int(os.environ.get("OARLOCK_FAULT_SEED", 31))
SUSPENSION_S = 2.0
"""Four times the election timeout of these members."""
HEARD_S = 5.0
"""Within this time the others have another leader, and everybody has found it."""

log = logging.getLogger("oarlock.testing.faults")


@asynccontextmanager
async def crowd_at(cluster: EtcdCluster) -> AsyncIterator[Crowd]:
    store = Store(cluster.fresh())
    async with AsyncExitStack() as stack:
        backends = [store.open() for _ in range(4)]
        for backend in backends:
            await backend.start()
            stack.push_async_callback(backend.close)
        async with Crowd(backends[1:], backends[0], SEED, kept=300) as crowd:
            yield crowd


async def judged(crowd: Crowd, what: str, slowest: float) -> None:
    verdict = await crowd.finish()
    notes = crowd.notes
    log.info("%s: %s; %d times resumed, %d times expired", what, verdict, notes.broken, notes.expired)
    log.info("longest call %.2f s, 10 events again within %.2f s", notes.longest_s, slowest)
    assert not verdict.problems, f"seed {SEED}: {verdict}"


async def test_the_leader_is_killed(etcd_cluster: EtcdCluster) -> None:
    dice = random.Random(SEED)
    slowest = 0.0
    async with crowd_at(etcd_cluster) as crowd:
        for _ in range(ROUNDS):
            await more(crowd, dice.randrange(20, 100))
            leader = await asyncio.to_thread(etcd_cluster.leader)
            leader.kill()
            slowest = max(slowest, await more(crowd, 10))
            leader.launch()
            await asyncio.to_thread(leader.wait_until_ready)
        await judged(crowd, f"{ROUNDS} leaders killed", slowest)


async def test_the_leader_is_suspended(etcd_cluster: EtcdCluster) -> None:
    """It wakes up believing that it leads. Reads through it must not be answered from what it knows."""
    dice = random.Random(SEED)
    slowest = 0.0
    async with crowd_at(etcd_cluster) as crowd:
        for _ in range(ROUNDS):
            await more(crowd, dice.randrange(20, 100))
            leader = await asyncio.to_thread(etcd_cluster.leader)
            leader.suspend()
            until = time.monotonic() + SUSPENSION_S
            try:
                slowest = max(slowest, await more(crowd, 10))
                await asyncio.sleep(max(0.0, until - time.monotonic()))
            finally:
                leader.resume()
            await more(crowd, 10)
        await judged(crowd, f"{ROUNDS} leaders suspended for {SUSPENSION_S:g} s", slowest)


async def test_a_member_without_the_others_answers_nothing(etcd_cluster: EtcdCluster) -> None:
    """Reads fail, in time, rather than lie; writes too; when the others are back so is everything."""
    address = etcd_address(etcd_cluster.fresh())
    backend = EtcdBackend(address, RealClock(), deadlines=EtcdDeadlines(call_s=2, attempt_s=1, probe_s=1))
    await backend.start()
    rev = (await backend.put(f"{START}a", b"1", expect=0)).rev
    for member in etcd_cluster.members[1:]:
        member.suspend()
    calls = [
        backend.get(f"{START}a"),
        backend.list(START, END),
        backend.count(START, END),
        backend.current_rev(),
        backend.epoch(),
        backend.put(f"{START}b", b"2", expect=0),
        backend.delete(f"{START}a", expect=rev),
        backend.compact(rev),
    ]
    began = time.monotonic()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    longest_s = time.monotonic() - began
    for member in etcd_cluster.members[1:]:
        member.resume()
    assert [type(answer) for answer in answers if not isinstance(answer, Unavailable)] == []
    assert longest_s < HEARD_S
    began = time.monotonic()
    while not await writes(backend):
        assert time.monotonic() - began < 2 * HEARD_S, "it doesn't come back"
    log.info("no majority: longest call %.2f s; back within %.2f s", longest_s, time.monotonic() - began)
    await backend.close()


async def writes(backend: EtcdBackend) -> bool:
    try:
        return (await backend.put(f"{START}{time.monotonic()}", b"", expect=0)).ok
    except Unavailable:
        return False


async def test_the_way_to_a_member_is_silent(etcd_cluster: EtcdCluster) -> None:
    """Others are asked instead, and watches go on at others, while the connection seems to be open."""
    path = Store(etcd_cluster.fresh()).url.rpartition("/")[2]
    slowest = 0.0
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(TcpProxy("127.0.0.1", member.port)) for member in etcd_cluster.members
        ]
        hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
        direct = Store(f"etcd://127.0.0.1:{etcd_cluster.members[0].port}/{path}")
        backends = [direct.open(), *(Store(f"etcd://{hosts}/{path}").open() for _ in range(3))]
        for backend in backends:
            await backend.start()
            stack.push_async_callback(backend.close)
        async with Crowd(backends[1:], backends[0], SEED, kept=300) as crowd:
            for proxy in proxies[: ROUNDS + 1]:
                await more(crowd, 20)
                proxy.stall()
                slowest = max(slowest, await more(crowd, 10))
                await asyncio.sleep(SUSPENSION_S)
                proxy.cut()
                proxy.flow()
            await judged(crowd, "ways that were silent", slowest)
        assert slowest < 3 * HEARD_S
