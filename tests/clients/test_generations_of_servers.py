"""A store is taken from one version to the next, with servers of two generations at work on it all the time."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

GENERATIONS = Path(__file__).parent / "generations"
V1, V2 = (f"/apis/cups.example.com/{version}/namespaces/default/cups" for version in ("v1", "v2"))
CUPS, ROUNDS = 40, 120

API = Callable[[ServerProcess], Any]


def test_from_one_version_to_the_next(tmp_path: Path, api: API) -> None:
    storage = f"sqlite:///{tmp_path / 'store.db'}"

    def generation(name: str) -> ServerProcess:
        return ServerProcess(tmp_path / name, GENERATIONS / f"{name}.py", storage)

    with generation("first") as first:
        for number in range(CUPS):
            api(first)(
                "POST", V1, {"metadata": {"name": f"c{number}"}, "spec": {"size": number, "mug": number % 2 > 0}}
            )
    with ExitStack() as running:
        careful = running.enter_context(generation("careful"))
        new = running.enter_context(generation("new"))
        _write_with_both_at_once(api, careful, new, lambda: _migrate(new, storage))
        # what the one wrote the other reads, each in either version
        ours, theirs = (_cups(api(server), V2) for server in (careful, new))
        assert ours == theirs
        assert _cups(api(careful), V1)["c7"]["spec"] == {"size": 7, "mug": True}
        assert ours["c7"]["spec"] == {"millilitres": 7, "handles": 1}
        for number in range(CUPS):
            labels = set(ours[f"c{number}"]["metadata"]["labels"])
            assert labels == {f"{who}{n}" for who in ("careful", "new") for n in range(number, ROUNDS, CUPS)}
        careful.stop()
        done = _migrate(new, storage)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(f" of {CUPS} rewritten as v2\n")
        assert _migrate(new, storage).stdout == f"cups.cups.example.com: 0 of {CUPS} rewritten as v2\n"
        after = _cups(api(new), V2)
        assert {name: one["spec"] for name, one in after.items()} == {name: one["spec"] for name, one in ours.items()}
    with generation("newest") as newest:
        assert _cups(api(newest), V2) == after
    with pytest.raises(AssertionError, match="written as v2, and this server knows only v1"), generation("first"):
        pass


def _write_with_both_at_once(
    api: API, one: ServerProcess, other: ServerProcess, meanwhile: Callable[[], object]
) -> None:
    """Each labels every cup in turn, through the version the other writes."""
    failed: list[BaseException] = []

    def write(server: ServerProcess, path: str, who: str) -> None:
        try:
            call = api(server)
            for number in range(ROUNDS):
                call.merge(f"{path}/c{number % CUPS}", {"metadata": {"labels": {f"{who}{number}": "1"}}})
        except BaseException as error:
            failed.append(error)

    writers = [
        threading.Thread(target=write, args=arguments) for arguments in ((one, V2, "careful"), (other, V1, "new"))
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        meanwhile()
    for writer in writers:
        writer.join()
    assert failed == []


def _migrate(server: ServerProcess, storage: str) -> subprocess.CompletedProcess[str]:
    """Beside the servers. While one of them writes the old version this is never done, and says so."""
    try:
        return server.oarlock("storage", "migrate", str(server.example), "--storage", storage)
    except subprocess.CalledProcessError as error:
        refused = subprocess.CompletedProcess(error.cmd, error.returncode, error.stdout, error.stderr)
    assert "is still being written in another version than v2" in refused.stderr
    return refused


def _cups(call: Any, path: str) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in call("GET", path)["items"]}
