"""``oarlock serve --workers N``: several processes on one port, of which any may die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from server_process import ROOT, ServerProcess, environment

from .conftest import FLUNDERS, Caller, calling, connections_of, is_there, start_all, until, workers_of

pytestmark = pytest.mark.slow

Start = Callable[..., ServerProcess]


def serve(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``oarlock serve`` until it ends by itself."""
    command = [sys.executable, "-m", "oarlock", "serve", str(ROOT / "examples/wardle/server.py"), *options]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


def test_the_banner_is_told_once_and_logs_name_the_worker(workers: Start) -> None:
    server = workers(2, "-v", "3")
    with calling(server, 4):
        pass
    until(lambda: server.log.count("limit=1") >= 4, "requests are logged")
    assert server.log.count("serving at") == 1
    assert f"serving at {server.url} with 2 workers" in server.log
    assert server.log.count("kubectl --kubeconfig") == 1
    assert "[worker 1] oarlock.access" in server.log
    assert "[worker 2] oarlock.access" in server.log


def test_few_connections_are_shared_out(workers: Start) -> None:
    server = workers(2)
    one, other = workers_of(server)
    before = connections_of(one), connections_of(other)
    with calling(server, 8):
        more = connections_of(one) - before[0], connections_of(other) - before[1]
    assert min(more) >= 2, f"{more} of 8, one of which may take the place of a connection that was closed meanwhile"


def test_a_worker_that_dies_is_replaced_and_no_connection_is_refused(workers: Start) -> None:
    server = workers(2)
    before = workers_of(server)
    os.kill(before[0], signal.SIGKILL)
    for number in range(20):
        caller = Caller(server)
        assert caller.create(f"after-{number}").status == 201
        caller.close()
    until(lambda: len(workers_of(server)) == 2 and before[0] not in workers_of(server), "it is replaced")
    assert before[1] in workers_of(server)
    until(lambda: "worker 1 was ended by SIGKILL; worker 1 is started again" in server.log, "it is told")


def test_connections_that_wait_for_a_stopped_worker_are_accepted_by_the_other(workers: Start) -> None:
    server = workers(2)
    os.kill(workers_of(server)[0], signal.SIGSTOP)
    try:
        with calling(server, 6):
            pass
    finally:
        os.kill(workers_of(server)[0], signal.SIGCONT)


def test_workers_end_with_a_supervisor_that_is_killed_and_the_port_is_free(workers: Start) -> None:
    server = workers(2)
    before = workers_of(server)
    os.kill(before[0], signal.SIGSTOP)
    server.kill()
    until(lambda: not any(map(is_there, before)), "they end, the stopped one too")
    start_all(server)
    with calling(server, 1) as [caller]:
        assert caller.create("again").status == 201


def test_all_leave_in_order(workers: Start) -> None:
    server = workers(2, "-v", "1")
    with calling(server, 2) as callers:
        watching = threading.Thread(target=lambda: ended.append(callers[0].get(f"{FLUNDERS}?watch=true")))
        ended: list[object] = []
        watching.start()
        until(lambda: watches(callers[1]) == 1, "it watches")
        before = workers_of(server)
        server.stop()
        watching.join(10)
    assert len(ended) == 1, "the watch has ended as if its time were up"
    assert not any(map(is_there, before))
    assert server.log.count("sample-server: stopped") == 1


def watches(caller: Caller) -> float:
    return sum(value for name, value in caller.metrics().items() if name.startswith("apiserver_longrunning_requests"))


def test_a_second_signal_ends_all_at_once(workers: Start) -> None:
    server = workers(2, "--shutdown-delay-duration", "60s")
    before = workers_of(server)
    os.kill(server.pid, signal.SIGTERM)
    with calling(server, 1):
        pass  # the delay is one in which everybody is served
    os.kill(server.pid, signal.SIGINT)
    until(lambda: not any(map(is_there, [server.pid, *before])), "they end")


def test_a_service_manager_may_signal_every_process(workers: Start) -> None:
    server = workers(2, "--shutdown-delay-duration", "1s")
    before = workers_of(server)
    for pid in (*before, server.pid, *before):
        os.kill(pid, signal.SIGTERM)
    os.kill(before[0], signal.SIGINT)
    with calling(server, 1):
        pass
    until(lambda: not is_there(server.pid), "it leaves")
    assert "sample-server: stopped" in server.log


def test_sighup_lets_every_worker_read_its_files_again(workers: Start) -> None:
    server = workers(2)
    tokens = server.folder / "tokens.csv"
    tokens.write_text(tokens.read_text() + 'second-token,second,second,"system:masters"\n')
    os.kill(server.pid, signal.SIGHUP)
    until(lambda: server.log.count("tokens.csv: changed, and read again") == 2, "each worker says so", 4.0)


def test_port_zero_is_one_port_for_all(tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text('t,a,a,"system:masters"\n')
    command = [sys.executable, "-m", "oarlock", "serve", str(ROOT / "examples/wardle/server.py"), "--workers", "2"]
    options = ["--secure-port", "0", "--token-auth-file", "tokens.csv"]
    with subprocess.Popen([*command, *options], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert b"serving at https://127.0.0.1:" in process.stdout.readline()
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--storage", "memory://"], "--workers=2: need a shared store, and each process has memory of its own"),
        (["--reload"], "--reload=true: works with one process only: leave it out, or leave out --workers"),
        (["--token-auth-file", "none.csv"], "none.csv: No such file or directory"),
        (["--storage", "sqlite:///not-there/x.db"], "--storage=sqlite:///not-there/x.db: "),
    ],
)
def test_a_mistake_is_told_once(tmp_path: Path, options: list[str], error: str) -> None:
    done = serve(tmp_path, "--secure-port", "0", "--workers", "2", *options)
    assert done.returncode != 0
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"oarlock: {error}")


def test_a_port_that_is_taken_is_told_once(workers: Start, tmp_path: Path) -> None:
    server = workers(2)
    done = serve(tmp_path, "--secure-port", str(server.port), "--workers", "2", "--data-dir", str(tmp_path / "other"))
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert f"cannot listen on 127.0.0.1:{server.port}" in line


def test_a_worker_that_dies_again_and_again_ends_the_whole(workers: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = workers(2)
    (server.folder / "tokens.csv").write_text("no token\n")
    os.kill(workers_of(server)[1], signal.SIGKILL)
    process = server._process
    assert process is not None
    assert process.wait(60) == 1
    last = server.log.splitlines()[-1]
    assert last.startswith("oarlock: worker 2 ended 6 times, soon after its start: ")
    assert "tokens.csv" in last


# Metrics


def total(metrics: dict[str, float], name: str, *labels: str) -> float:
    return sum(
        value for key, value in metrics.items() if key.startswith(name) and all(label in key for label in labels)
    )


def creates(metrics: dict[str, float]) -> float:
    return total(metrics, "apiserver_request_total{", 'code="201"', 'verb="POST"')


def test_metrics_of_any_worker_are_those_of_all(workers: Start) -> None:
    server = workers(2)
    with calling(server, 4) as callers:
        for number, caller in enumerate(callers):
            assert caller.create(f"one-{number}").status == 201
        # A request is counted once its answer has been sent.
        until(lambda: creates(callers[0].metrics()) == 4, "every create is counted")
        pages = [caller.metrics() for caller in callers]
    for metrics in pages:
        assert creates(metrics) == 4
        assert total(metrics, "apiserver_request_duration_seconds_count{", 'verb="POST"') == 4
        assert total(metrics, "apiserver_storage_objects{", "flunders") == 4
        assert total(metrics, "process_resident_memory_bytes{", 'worker="1"') > 0
        assert total(metrics, "process_resident_memory_bytes{", 'worker="supervisor"') > 0
        assert total(metrics, "python_gc_collections_total{", 'worker="2"') > 0
        assert total(metrics, "python_info{") == 1
        assert sum(name.startswith("process_start_time_seconds") for name in metrics) == 3


def test_sums_never_go_back(workers: Start) -> None:
    server = workers(2, "-v", "1")
    highest = 0.0
    for number in range(6):
        caller = Caller(server)
        assert caller.create(f"object-{number}").status == 201
        shown = creates(caller.metrics())
        caller.close()
        assert shown >= highest
        highest = shown
        before = workers_of(server)
        os.kill(before[number % 2], signal.SIGKILL)
        with calling(server, 1) as [other]:
            assert creates(other.metrics()) >= highest
        until(lambda killed=number + 1: server.log.count("is ready again") == killed, "it is replaced")
    with calling(server, 1) as [caller]:
        until(lambda: creates(caller.metrics()) == 6, "all that was shown is still counted")
        assert total(caller.metrics(), "oarlock_worker_restarts_total{") == 6


def test_a_worker_that_hangs_doesnt_hang_metrics(workers: Start) -> None:
    server = workers(2)
    with calling(server, 4) as callers:
        for number, caller in enumerate(callers):
            assert caller.create(f"one-{number}").status == 201
        assert creates(callers[0].metrics()) == 4
        stopped = workers_of(server)[0]
        os.kill(stopped, signal.SIGSTOP)
        try:
            caller = Caller(server, timeout_s=5.0)
            for _ in range(5):
                assert creates(caller.metrics()) == 4
            caller.close()
        finally:
            os.kill(stopped, signal.SIGCONT)
