"""`ServerThread`: real clients talk to a real server in the test's process."""

from __future__ import annotations

import asyncio
import gc
import http.client
import ssl
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import kubernetes
import lightkube
import pytest
from lightkube.generic_resource import create_namespaced_resource
from until import until

from oarlock import APIServer, Context, Resource, VirtualCollection
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.server.config import ServerConfig
from oarlock.storage.backend import StorageError
from oarlock.testing import InMemoryClient, ServerThread, VirtualClock

THINGS = "/apis/test.example.com/v1/namespaces/default/things"


def thing(name: str) -> dict[str, Any]:
    return {"apiVersion": "test.example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"size": 1}}


def names(running: ServerThread) -> list[str]:
    return [one["metadata"]["name"] for one in running.client().get(THINGS).json["items"]]


def test_the_kubernetes_client_finds_all_it_needs_in_the_kubeconfig(app: APIServer) -> None:
    with ServerThread(app) as running:
        with kubernetes.config.new_client_from_config(str(running.kubeconfig)) as api:
            things = kubernetes.client.CustomObjectsApi(api)
            things.create_namespaced_custom_object("test.example.com", "v1", "default", "things", thing("a"))
        assert names(running) == ["a"]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_lightkube(app: APIServer) -> None:
    kind = create_namespaced_resource("test.example.com", "v1", "Thing", "things")
    with ServerThread(app) as running:
        client = lightkube.Client(lightkube.KubeConfig.from_file(running.kubeconfig).get())
        client.create(kind(metadata={"name": "a"}, spec={"size": 1}), namespace="default")
        assert names(running) == ["a"]
    gc.collect()  # the client leaves its sockets to the collector


def test_url_token_and_authority(app: APIServer) -> None:
    with ServerThread(app) as running:
        request = urllib.request.Request(running.url + THINGS, headers={"Authorization": f"Bearer {running.token}"})
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(running.ca))) as answer:
            assert answer.status == 200


def test_who_has_no_token_is_nobody(app: APIServer) -> None:
    with ServerThread(app) as running:
        assert running.client(token="").get(THINGS).status == 401


def test_a_watch_over_http(app: APIServer) -> None:
    with ServerThread(app) as running:
        client = running.client()
        with client.watch(THINGS) as events:
            client.post(THINGS, thing("a"))
            kind, tree = events.next()
            assert (kind, tree["metadata"]["name"]) == ("ADDED", "a")
        with pytest.raises(AssertionError, match="404"), client.watch("/apis/no/v1/things"):
            pass


def test_stopping_ends_watches_and_frees_the_port(app: APIServer) -> None:
    running = ServerThread(app).start()
    client = running.client()
    with client.watch(THINGS) as events:
        running.stop()
        with pytest.raises(EOFError):
            events.next()
    with pytest.raises(ConnectionRefusedError):
        client.get(THINGS)
    assert [thread for thread in threading.enumerate() if thread.name == "oarlock-server"] == []


class Slow(Resource, group="test.example.com", version="v1"):
    """Something whose answer never comes."""


class Slows(VirtualCollection[Slow]):
    asked = threading.Event()

    async def get(self, name: str, ctx: Context) -> Slow | None:
        self.asked.set()
        await asyncio.sleep(3600)
        return None


def test_a_request_that_does_not_end_holds_up_no_test() -> None:
    running = ServerThread(APIServer(serve=[Slows], name="slow")).start()
    answers: list[object] = []

    def ask() -> None:
        try:
            answers.append(running.client().get("/apis/test.example.com/v1/namespaces/default/slows/a"))
        except (OSError, http.client.HTTPException) as error:
            answers.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert Slows.asked.wait(20)
    running.stop()
    asking.join(20)
    assert len(answers) == 1


def test_two_at_once(app: APIServer) -> None:
    other = APIServer(serve=[Slows], name="other")
    with ServerThread(app) as one, ServerThread(other) as two:
        assert one.url != two.url
        assert one.client().get(THINGS).status == 200
        assert two.client(one.token).get("/apis").status == 401


def test_one_after_the_other_on_the_same_store(app: APIServer, tmp_path: Path) -> None:
    config = ServerConfig(storage=f"sqlite:///{tmp_path / 'store.db'}")
    with ServerThread(app, config=config) as running:
        running.client().post(THINGS, thing("a"))
    with ServerThread(app, config=config) as running:
        assert names(running) == ["a"]


def test_given_a_folder_its_files_stay(app: APIServer, tmp_path: Path) -> None:
    with ServerThread(app, folder=tmp_path / "kept") as running:
        files = running.kubeconfig, running.ca
    assert all(file.exists() for file in files)
    with ServerThread(app) as running:
        files = running.kubeconfig, running.ca
        assert all(file.exists() for file in files)
    assert not any(file.exists() for file in files)


def test_what_keeps_it_from_starting_is_raised(app: APIServer, tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError), ServerThread(app, config=ServerConfig(storage=f"sqlite:///{tmp_path}/store.db")):
        pass
    assert [thread for thread in threading.enumerate() if thread.name == "oarlock-server"] == []


def test_the_tests_process_keeps_its_collector_and_its_signals(app: APIServer) -> None:
    before, frozen = (gc.isenabled(), gc.get_threshold()), gc.get_freeze_count()
    with ServerThread(app):
        assert (gc.isenabled(), gc.get_threshold()) == before
        assert gc.get_freeze_count() <= frozen, "one of them may be gone"


def test_before_it_runs_it_says_what_is_missing(app: APIServer) -> None:
    with pytest.raises(RuntimeError, match="with ServerThread"):
        _ = ServerThread(app).kubeconfig


def test_nothing_is_left_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plane = ControlPlane()
    for _ in range(2):
        with ServerThread(plane) as running:
            folder = running.kubeconfig.parent
            until((folder / "pki" / "front-proxy-client.key").exists)
            assert list(folder.glob("*.service-accounts.key"))
    with InMemoryClient(plane) as client:
        assert isinstance(client.clock, VirtualClock)
        client.run(client.clock.run(5))
    assert list(tmp_path.iterdir()) == []
    assert not folder.exists()


def test_a_data_directory_that_is_given_is_used(tmp_path: Path) -> None:
    with ServerThread(ControlPlane(), config=ServerConfig(storage="memory://", data_dir=tmp_path)):
        assert list(tmp_path.glob("*.service-accounts.key"))
