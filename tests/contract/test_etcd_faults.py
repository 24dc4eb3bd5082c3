"""What goes wrong with an etcd: nothing acknowledged is lost, no watch is stuck, and errors say what it is."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trustme
from databases import EtcdCluster, EtcdServer, NoDatabase

from oarlock.storage.backend import Compacted, OutcomeUnknown, StorageError, TooLarge, Unavailable
from oarlock.storage.etcd.address import etcd_address
from oarlock.storage.etcd.backend import MAX_VALUE, EtcdBackend
from oarlock.storage.etcd.replay import WatchStream
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, Recorder, caught_up, eventually, fold, record, refused


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[EtcdBackend]:
    backend = EtcdBackend(etcd_address(url), VirtualClock())
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


@pytest.fixture
def server_with(request: pytest.FixtureRequest) -> Iterator[Callable[..., EtcdServer]]:
    """Start a member with options of its own."""
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> EtcdServer:
            try:
                server = EtcdServer(*options)
            except NoDatabase as error:
                pytest.skip(str(error))
            stack.enter_context(server)
            return server

        yield start


class Load:
    """Clients that create and update keys until they are stopped, and remember what was acknowledged."""

    def __init__(self, backend: EtcdBackend, clients: int) -> None:
        self.acknowledged: dict[str, int] = {}
        self.unknown: set[str] = set()
        self._backend = backend
        self._stopping = False
        self._tasks = [asyncio.create_task(self._write(client)) for client in range(clients)]

    async def _write(self, client: int) -> None:
        number = 0
        while not self._stopping:
            key, number = f"/t/{client}-{number}", number + 1
            try:
                result = await self._backend.put(key, b"1", expect=0)
            except OutcomeUnknown:
                self.unknown.add(key)
            except Unavailable:
                await asyncio.sleep(0.01)
            else:
                assert result.ok, "nobody else writes this key"
                self.acknowledged[key] = result.rev

    async def until(self, more: int) -> None:
        """Wait for that many more acknowledged writes."""
        wanted = len(self.acknowledged) + more
        await eventually(lambda: len(self.acknowledged) >= wanted, "writes don't go on")

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)


async def compare(backend: EtcdBackend, load: Load, watch: Recorder) -> None:
    """Everything acknowledged is there, at its revision, and the watch had exactly what is there."""
    page = await backend.list(START, END)
    await caught_up(backend, watch)
    there = {kv.key: kv.mod_rev for kv in page.kvs}
    assert load.acknowledged.items() <= there.items(), "an acknowledged write was lost"
    assert there.keys() <= load.acknowledged.keys() | load.unknown
    before = [event for event in watch.events if event.rev <= page.rev]  # what is unknown may still come
    assert {key: rev for key, (_, rev) in fold({}, before).items()} == there
    assert watch.error is None


def test_killed_and_started_again_under_writes(etcd: EtcdServer) -> None:
    async def scenario() -> None:
        async with opened(etcd.fresh()) as backend:
            watch = await record(backend, await backend.current_rev())
            load = Load(backend, 8)
            for _ in range(3):
                await load.until(100)
                await asyncio.to_thread(etcd.restart)
            await load.until(100)
            await load.stop()
            await compare(backend, load, watch)

    asyncio.run(scenario())


def all_answer(cluster: EtcdCluster) -> None:
    """One that hangs from its start on, as etcd 3.4 sometimes does, would leave no majority when another one goes."""
    for member in cluster.members:
        try:
            member.etcdctl("--command-timeout=5s", "put", "/answers", "")
        except AssertionError:
            member.restart()


def test_three_members_lose_their_leader(etcd_cluster: EtcdCluster) -> None:
    async def scenario() -> None:
        async with opened(etcd_cluster.fresh()) as backend:
            watch = await record(backend, await backend.current_rev())
            load = Load(backend, 8)
            await load.until(100)
            await asyncio.to_thread(all_answer, etcd_cluster)
            leader = await asyncio.to_thread(etcd_cluster.leader)
            leader.kill()
            await load.until(200)
            await asyncio.to_thread(etcd_cluster.ensure_running)
            await load.until(100)
            await load.stop()
            await compare(backend, load, watch)

    asyncio.run(scenario())


def test_a_member_is_suspended(etcd_cluster: EtcdCluster) -> None:
    """The watch leaves it for another within seconds, calls go past it, also while it leads."""

    async def scenario() -> None:
        async with opened(etcd_cluster.fresh()) as backend:
            await asyncio.to_thread(all_answer, etcd_cluster)
            watch = await record(backend, await backend.current_rev())
            load = Load(backend, 8)
            await load.until(100)
            leader = await asyncio.to_thread(etcd_cluster.leader)
            leader.suspend()
            begin = time.monotonic()
            await load.until(200)
            assert watch.error is None
            rev = max(load.acknowledged.values())
            await watch.until(rev)
            assert time.monotonic() - begin < 20
            leader.resume()
            await load.stop()
            await compare(backend, load, watch)

    asyncio.run(scenario())


def test_without_a_majority_calls_end_and_later_work_again(etcd_cluster: EtcdCluster) -> None:
    async def scenario() -> None:
        async with opened(etcd_cluster.fresh()) as backend:
            rev = (await backend.put("/t/a", b"1", expect=0)).rev
            watch = await record(backend, rev)
            for member in etcd_cluster.members[:2]:
                member.kill()
            begin = time.monotonic()
            calls: list[Awaitable[object]] = [backend.put("/t/a", b"2", expect=rev), backend.current_rev()]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(outcome, Unavailable) for outcome in outcomes), outcomes
            assert time.monotonic() - begin < 15
            await asyncio.to_thread(etcd_cluster.ensure_running)
            kv, _ = await backend.get("/t/a")
            assert kv is not None
            last = await backend.put("/t/a", b"3", expect=kv.mod_rev)
            assert last.ok
            await watch.until(last.rev)
            assert watch.error is None

    asyncio.run(scenario())


def test_without_space_writes_are_refused_until_there_is_some(server_with: Callable[..., EtcdServer]) -> None:
    server = server_with("--quota-backend-bytes=4000000")

    async def scenario() -> None:
        async with opened(server.fresh()) as backend:
            rev = 0
            errors: list[Unavailable] = []
            while not errors or isinstance(errors[-1], OutcomeUnknown):
                (outcome,) = await asyncio.gather(
                    backend.put("/t/a", bytes(200_000), expect=rev), return_exceptions=True
                )
                kv, _ = await backend.get("/t/a")
                assert kv is not None
                if isinstance(outcome, Unavailable):
                    errors.append(outcome)
                    # etcd executes the write that raises the alarm, and says that it did not.
                    assert kv.mod_rev == rev or isinstance(outcome, OutcomeUnknown)
                rev = kv.mod_rev
            assert len(errors) <= 2
            assert all("NOSPACE" in str(error) and len(str(error).splitlines()) == 1 for error in errors)
            assert (await backend.check(quick=True))[0].endswith("has the alarm NOSPACE")
            await backend.compact(await backend.current_rev())
            await asyncio.to_thread(server.etcdctl, "defrag")
            await asyncio.to_thread(server.etcdctl, "alarm", "disarm")
            assert (await backend.put("/t/a", b"2", expect=rev)).ok
            assert await backend.check() == []

    asyncio.run(scenario())


def test_a_request_larger_than_this_etcd_takes(server_with: Callable[..., EtcdServer]) -> None:
    server = server_with("--max-request-bytes=100000")

    async def scenario() -> None:
        async with opened(server.fresh()) as backend:
            await refused(backend.put("/t/a", bytes(700_000), expect=0), TooLarge)
            await refused(backend.put("/t/a", bytes(MAX_VALUE + 1), expect=0), TooLarge)
            assert (await backend.put("/t/a", bytes(90_000), expect=0)).ok

    asyncio.run(scenario())


def test_another_program_compacts_during_a_replay(etcd: EtcdServer) -> None:
    async def scenario() -> None:
        async with opened(etcd.fresh()) as backend:
            begin = (await backend.put("/t/a", b"0", expect=0)).rev
            rev, revs = begin, []
            for number in range(1500):
                rev = (await backend.put("/t/a", b"%d" % number, expect=rev)).rev
                revs.append(rev)
            replays = [asyncio.create_task(record(backend, begin)) for _ in range(4)]
            await asyncio.sleep(0)
            await asyncio.to_thread(etcd.etcdctl, "compact", str(revs[-2]))
            assert await backend.compact_rev() == revs[-2]
            for watch in await asyncio.gather(*replays):
                await watch.until_over(rev)
                seen = [event.rev for event in watch.events]
                assert seen == revs[: len(seen)], "a hole instead of an error"
                assert len(seen) == len(revs) or isinstance(watch.error, Compacted)

    asyncio.run(scenario())


def test_compaction_takes_turns_with_kube_apiserver(etcd: EtcdServer) -> None:
    """Its key has the revision as text, and its version counts; who loses compacts nothing."""

    async def scenario() -> None:
        async with opened(etcd.fresh()) as backend:
            rev = (await backend.put("/t/a", b"1", expect=0)).rev
            rev = (await backend.put("/t/a", b"2", expect=rev)).rev
            await backend.compact(rev)
            assert etcd.etcdctl("get", "compact_rev_key", "--print-value-only").strip() == str(rev)
            later = (await backend.put("/t/a", b"3", expect=rev)).rev
            etcd.etcdctl("put", "compact_rev_key", str(later))  # as one that is about to compact
            etcd.etcdctl("compact", str(later))
            behind = await refused(backend.compact(later), Compacted)
            assert behind.compact_rev == later

    asyncio.run(scenario())


def test_large_events_come_in_fragments(etcd: EtcdServer) -> None:
    async def scenario() -> None:
        async with opened(etcd.fresh()) as backend:
            begin = await backend.current_rev()
            rev, revs = 0, []
            for number in range(12):
                rev = (await backend.put("/t/a", bytes([number]) * 1_000_000, expect=rev)).rev
                revs.append(rev)
            stream = WatchStream(backend.store.client, backend.store.client.choose(), backend.store.keys.all, begin + 1)
            answers = [await stream.read()]
            while not any(event.kv.mod_revision == rev for event in answers[-1].events):
                answers.append(await stream.read())
            stream.cancel()
            assert any(answer.fragment for answer in answers), "nothing was tested"
            watch = await record(backend, begin)
            await watch.until(rev)
            assert [event.rev for event in watch.events] == revs
            assert [event.value[0] for event in watch.events if event.value] == list(range(12))
            assert watch.events[-1].prev_value == bytes([10]) * 1_000_000

    asyncio.run(scenario())


def test_lists_of_large_values_come_in_portions(etcd: EtcdServer) -> None:
    async def scenario() -> None:
        async with opened(etcd.fresh()) as backend:
            for number in range(60):
                await backend.put(f"/t/{number:03}", bytes(1_200_000), expect=0)
            page = await backend.list(START, END)
            assert [len(kv.value) for kv in page.kvs] == [1_200_000] * 60
            page = await backend.list(START, END, limit=55)
            assert (len(page.kvs), page.more, page.count) == (55, True, 5)

    asyncio.run(scenario())


def test_a_restored_etcd_is_noticed(server_with: Callable[..., EtcdServer], tmp_path: Path) -> None:
    """Its revision goes back: watches end as compacted, and the epoch is another one."""
    server = server_with()

    async def scenario() -> None:
        url = server.fresh()
        async with opened(url) as backend:
            epoch = await backend.epoch()
            kept = (await backend.put("/t/a", b"1", expect=0)).rev
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.copy_data, tmp_path / "copy")
            await asyncio.to_thread(server.launch)
            await asyncio.to_thread(server.wait_until_ready)
            last = (await backend.put("/t/a", b"2", expect=kept)).rev
            watch = await record(backend, last)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.replace_data, tmp_path / "copy")
            await asyncio.to_thread(server.launch)
            await asyncio.to_thread(server.wait_until_ready)
            assert isinstance(await watch.until_failed(), Compacted)
            assert await backend.epoch() != epoch
            kv, _ = await backend.get("/t/a")
            assert kv is not None
            assert (kv.value, kv.mod_rev) == (b"1", kept)
            watch = await record(backend, await backend.current_rev())
            rev = (await backend.put("/t/a", b"3", expect=kept)).rev
            await watch.until(rev)
            assert [event.value for event in watch.events] == [b"3"]

    asyncio.run(scenario())


def test_a_user_whose_token_ends(server_with: Callable[..., EtcdServer]) -> None:
    """The members forget their tokens when they start: calls and the watch get new ones by themselves."""
    server = server_with()
    ctl = server.etcdctl
    ctl("user", "add", "root:root-pw")
    ctl("user", "grant-role", "root", "root")
    ctl("role", "add", "oarlock")
    ctl("role", "grant-permission", "oarlock", "readwrite", "/shop/", "/shop0")
    ctl("role", "grant-permission", "oarlock", "readwrite", "compact_rev_key")
    ctl("user", "add", "oarlock:s3cret")
    ctl("user", "grant-role", "oarlock", "oarlock")
    ctl("auth", "enable")
    url = f"etcd://oarlock:s3cret@127.0.0.1:{server.port}/shop"

    async def scenario() -> None:
        async with opened(url) as backend:
            watch = await record(backend, await backend.current_rev())
            rev = (await backend.put("/t/a", b"1", expect=0, ttl_ms=3_600_000)).rev
            await watch.until(rev)
            for number in range(2):
                await asyncio.to_thread(server.restart)
                kv, _ = await backend.get("/t/a")
                assert kv is not None
                rev = (await backend.put("/t/a", b"%d" % number, expect=rev)).rev
                await watch.until(rev)
            assert watch.error is None
            await backend.compact(rev)
            assert await backend.check() == []
        for wrong, why in (
            (url.replace("s3cret", "other"), "name or password is wrong"),
            (url.replace("/shop", "/shop2"), "permission denied"),
            (url.replace("oarlock:s3cret@", ""), "requires a user"),
        ):
            assert why in await refusal(wrong)

    asyncio.run(scenario())


async def refusal(url: str, within_s: float = 12.0) -> str:
    """The one line with which a start fails, soon."""
    begin = time.monotonic()
    backend = EtcdBackend(etcd_address(url), VirtualClock())
    error = await refused(backend.start(), StorageError)
    assert time.monotonic() - begin < within_s
    assert len(str(error).splitlines()) == 1
    assert "s3cret" not in str(error)
    await backend.close()
    return str(error)


class TlsServer(EtcdServer):
    @property
    def client_url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


def test_tls_with_and_without_a_client_certificate(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    stranger.cert_pem.write_to_path(tmp_path / "stranger.pem")
    for name, issuer in (("server", authority), ("client", authority), ("other", stranger)):
        certificate = issuer.issue_cert("127.0.0.1", "localhost", common_name=name)
        certificate.private_key_pem.write_to_path(tmp_path / f"{name}-key.pem")
        certificate.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    options = [f"--cert-file={tmp_path}/server.pem", f"--key-file={tmp_path}/server-key.pem", "--client-cert-auth"]
    try:
        server = TlsServer(*options, f"--trusted-ca-file={tmp_path}/ca.pem")
    except NoDatabase as error:
        pytest.skip(str(error))

    def url(ca: str, client: str = "") -> str:
        pair = f"&cert={tmp_path}/{client}.pem&key={tmp_path}/{client}-key.pem" if client else ""
        return f"etcd://127.0.0.1:{server.port}/test?ca={tmp_path}/{ca}.pem{pair}"

    async def scenario() -> None:
        async with opened(url("ca", "client")) as backend:
            watch = await record(backend, await backend.current_rev())
            await watch.until((await backend.put("/t/a", b"1", expect=0)).rev)
        assert "isn't of the authority in ca" in await refusal(url("stranger", "client"))
        for wrong in (url("ca"), url("ca", "other"), f"etcd://127.0.0.1:{server.port}/test"):
            assert f"etcd at 127.0.0.1:{server.port}: " in await refusal(wrong)
        assert "cannot read" in await refusal(url("nothing"))
        assert "cannot read" in await refusal(url("ca", "nobody"))

    with server:
        asyncio.run(scenario())


def test_what_is_no_etcd(tmp_path: Path) -> None:
    """Nothing, something silent, and something that speaks HTTP/1.1: each is named within the deadline."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            assert f"127.0.0.1:{port}: no answer in time" in await refusal(f"etcd://127.0.0.1:{port}")
        assert f"127.0.0.1:{port}: nothing listens there" in await refusal(f"etcd://127.0.0.1:{port}")
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        assert f"127.0.0.1:{port}: " in await refusal(f"etcd://127.0.0.1:{port}")
        server.close()
        assert "the host doesn't exist" in await refusal("etcd://no-such-host.invalid?insecure=true")

    asyncio.run(scenario())
