"""The databases that tests start keep their data through a crash, and never outlive the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from database_process import children_of
from databases import EtcdCluster, EtcdServer, MariadbServer, PostgresServer

pytestmark = pytest.mark.slow

OWNER = """
import sys, time
from databases import {kind}
server = {kind}()
server.start()
print(server.pid, server.folder, flush=True)
sys.stdin.read()
"""


def test_postgresql_is_the_same_after_a_crash(postgres: PostgresServer) -> None:
    database = postgres.fresh().rpartition("/")[2]
    postgres.sql("CREATE TABLE one (a int); INSERT INTO one VALUES (7)", database)
    before = children_of(postgres.pid)
    assert before
    postgres.restart()
    assert not [pid for pid in before if _runs(pid)]
    assert postgres.sql("SELECT a FROM one", database) == [["7"]]


def test_mariadb_is_the_same_after_a_crash(mariadb: MariadbServer) -> None:
    database = mariadb.fresh().rpartition("/")[2]
    mariadb.sql("CREATE TABLE one (a int); INSERT INTO one VALUES (7)", database)
    mariadb.restart()
    assert mariadb.sql("SELECT a FROM one", database) == [["7"]]


def test_etcd_is_the_same_after_a_crash(etcd: EtcdServer) -> None:
    etcd.etcdctl("put", "/a", "7")
    etcd.restart()
    assert etcd.etcdctl("get", "/a", "--print-value-only") == "7\n"


def test_a_cluster_of_etcd_has_another_leader_when_it_loses_its_own(etcd_cluster: EtcdCluster) -> None:
    leader = etcd_cluster.leader()
    leader.kill()
    assert etcd_cluster.leader() is not leader
    etcd_cluster.ensure_running()
    assert all(member.runs for member in etcd_cluster.members)


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "etcd"])
def test_a_database_ends_with_a_test_run_that_is_killed(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(kind)
    if server.command() == server.as_user(*server.command()):
        pytest.skip("there is no setpriv on this machine, with which the kernel would end it")
    support = Path(sys.modules["databases"].__file__ or "").parent
    program = OWNER.format(kind=type(server).__name__)
    environment = {**os.environ, "PYTHONPATH": str(support)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)
    until = time.monotonic() + 30
    while _runs(int(pid)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _runs(int(pid))
    with type(server)():
        assert not Path(folder).exists(), "the next run removes what a killed one left"


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
