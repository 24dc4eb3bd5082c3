"""Packages add backends by entry points; what is wrong with one is told in one line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oarlock.apps.api_server import APIServer
from oarlock.server.config import ServerConfig
from oarlock.server.options.option import ConfigError
from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.passwords import without_password
from oarlock.storage.url import check_storage, check_url, open_backend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory
from oarlock.testing.thread import ServerThread

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package with entry points, by its name: ``install("ram", ram="ram_backend:open_ram")``."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def installed(package: str, code: str = "", **points: str) -> None:
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{scheme} = {value}" for scheme, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[oarlock.backends]", *lines, ""]))
        (tmp_path / f"{package}_backend.py").write_text(code)

    yield installed
    for name in set(sys.modules) - before:
        if name.endswith("_backend"):
            del sys.modules[name]


def refusal(url: str) -> str:
    with pytest.raises(StorageError) as error:
        check_storage(url, VirtualClock())
    text = str(error.value)
    assert len(text.splitlines()) == 1
    assert text.startswith("cannot use '")
    return text


RAM = """
from oarlock.storage.memory import MemoryBackend

def open_ram(url, clock, *, create):
    backend = MemoryBackend(clock)
    backend.url = url
    return backend
"""


def test_a_scheme_of_another_package(install: Install) -> None:
    install("ram", RAM, ram="ram_backend:open_ram")
    for url in ("ram://one", "RAM://one"):
        check_url(url)
        backend = open_backend(url, VirtualClock())
        assert isinstance(backend, MemoryBackend)
        assert vars(backend)["url"] == url
    text = refusal("rom://one")
    assert "sqlite:////absolute.db, " in text
    assert text.endswith(" or ram://")


def test_the_example_of_the_docs(install: Install) -> None:
    page = Path(__file__).parents[3] / "docs" / "testing.md"
    code = page.read_text().partition("# my_backend.py\n")[2].partition("```")[0]
    install("my", code, ram="my_backend:open_ram")
    assert isinstance(open_backend("ram://one", VirtualClock()), MemoryBackend)
    assert "name it" in refusal("ram://")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import a_driver_that_is_not_there", "No module named 'a_driver_that_is_not_there'"),
        ("", "can't be loaded: AttributeError"),
        ("open_ram = 5", "TypeError: 'int' object is not callable"),
        ("def open_ram(url, clock, *, create): raise ValueError(url + ' is\\nbad')", "failed: ValueError"),
        ("def open_ram(url, clock, *, create): return 'a backend'", "returned str, which isn't a Backend"),
    ],
)
def test_a_broken_entry_point_is_named_in_one_line(install: Install, code: str, why: str) -> None:
    install("ram", code, ram="ram_backend:open_ram")
    text = refusal("ram://me:secret@host")
    assert why in text
    assert "the entry point 'ram' of ram" in text
    assert "secret" not in text


def test_two_packages_with_one_scheme(install: Install) -> None:
    install("ram", RAM, ram="ram_backend:open_ram")
    install("rum", RAM, ram="rum_backend:open_ram")
    assert refusal("ram://one").endswith(": ram and rum both provide ram://; uninstall one of them")


def test_the_schemes_of_oarlock_stay_its_own(install: Install) -> None:
    install("ram", "raise RuntimeError", memory="ram_backend:open_ram")
    assert isinstance(open_backend("memory://", VirtualClock()), MemoryBackend)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("etcd://root:pass@word@host/p", "etcd://root:***@host/p"),
        ("a://u:p@h and b://v:q@i", "a://u:***@h and b://v:***@i"),
        ("etcd://h?user=root&password=p%40ss&ca=/ca", "etcd://h?user=root&password=***&ca=/ca"),
        ("postgresql://h/db?SSLPassword=abc", "postgresql://h/db?SSLPassword=***"),
        ("x://h?pass%77ord=abc&auth_token=def", "x://h?pass%77ord=***&auth_token=***"),
        ("etcd://h:2379/p?key=/k.pem: nobody answers", "etcd://h:2379/p?key=/k.pem: nobody answers"),
        ("no URL: password=x", "no URL: password=x"),
    ],
)
def test_passwords_are_hidden(text: str, shown: str) -> None:
    assert without_password(text) == shown


def test_passwords_are_hidden_in_what_shows_a_configuration() -> None:
    config = ServerConfig(storage="etcd://root:secret@localhost/p")
    assert config.shown_storage == "etcd://root:***@localhost/p"
    assert "secret" not in repr(config)
    with pytest.raises(ConfigError) as error:
        ServerConfig(storage="etcd://far.example.com?user=root&password=secret")
    assert "secret" not in str(error.value)


def test_a_server_with_a_backend_of_its_own() -> None:
    async def scenario() -> None:
        backend = MemoryBackend(VirtualClock())
        async with InMemory(APIServer(serve=[], storage=backend)) as api:
            assert (await api.get("/readyz")).status == 200
        with pytest.raises(Unavailable, match="closed"):
            await backend.current_rev()

    asyncio.run(scenario())


def test_a_server_with_a_backend_of_its_own_takes_no_url() -> None:
    with ServerThread(APIServer(serve=[], storage=MemoryBackend(VirtualClock()))):
        pass
    server = APIServer(serve=[], storage=MemoryBackend(VirtualClock()))
    config = ServerConfig(storage="sqlite:///other.db")
    with pytest.raises(StorageError, match=r"can't be combined with APIServer\(storage=…\): leave it out"):
        ServerThread(server, config=config).start()


@pytest.mark.parametrize(("storage", "why"), [("memory://", "a URL"), (MemoryBackend, "MemoryBackend"), (5, "int")])
def test_what_is_no_backend_is_refused_when_the_server_is_declared(storage: object, why: str) -> None:
    with pytest.raises(Exception, match=f"{why} isn't a Backend"):
        APIServer(serve=[], storage=storage)  # type: ignore[arg-type]
