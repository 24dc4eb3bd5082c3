"""``--etcd-servers`` and its companions stand for a URL of ``--storage``."""

from __future__ import annotations

from pathlib import Path

import pytest

from oarlock.server.config import ServerConfig
from oarlock.server.options.file import as_file, read_file
from oarlock.server.options.flags import merged, read_flags
from oarlock.server.options.option import ConfigError, options_of

OPTIONS = options_of(ServerConfig)
FILES = {"etcd_cafile": Path("/pki/ca.pem"), "etcd_certfile": Path("/pki/c.pem"), "etcd_keyfile": Path("/pki/k.pem")}


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({"etcd_servers": ("http://127.0.0.1:2379",)}, "etcd://127.0.0.1:2379/registry?insecure=true"),
        ({"etcd_servers": ("127.0.0.1:2379",)}, "etcd://127.0.0.1:2379/registry?insecure=true"),
        ({"etcd_servers": ("https://a:2379", "https://b:2379/")}, "etcd://a:2379,b:2379/registry?tls=true"),
        ({"etcd_servers": ("https://a",), "etcd_prefix": "/shop/a b"}, "etcd://a/shop/a%20b?tls=true"),
        ({"etcd_servers": ("https://a",), **FILES}, "etcd://a/registry?ca=/pki/ca.pem&cert=/pki/c.pem&key=/pki/k.pem"),
    ],
)
def test_they_are_a_url(options: dict[str, object], url: str) -> None:
    config = ServerConfig(**options)  # type: ignore[arg-type]
    assert (config.storage, config.shown_storage) == (url, url)
    assert config.etcd_servers == ()
    assert config.data_directory == Path("oarlock-data")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"etcd_servers": ("http://a",), "storage": "memory://"}, "can't be combined with `storage`"),
        ({"etcd_cafile": Path("/ca.pem")}, "needs `etcd_servers`"),
        ({"etcd_prefix": "/x"}, "needs `etcd_servers`"),
        ({"etcd_servers": ("https://a",), "etcd_certfile": Path("/c.pem")}, "give `etcd_keyfile` too"),
        ({"etcd_servers": ("https://a", "http://b")}, "some servers are http:// and some https://"),
        ({"etcd_servers": ("http://a",), "etcd_cafile": Path("/ca.pem")}, "files for TLS are of no use"),
        ({"etcd_servers": ("https://root:pw@a",)}, "a user and password can't be in a server"),
        ({"etcd_servers": ("ftp://a",)}, "is not of the form https://host:2379"),
        ({"etcd_servers": ("https://a/b",)}, "is not of the form https://host:2379"),
        ({"etcd_servers": ("https://a",), "etcd_prefix": "/a//b"}, "without empty parts"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(options: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError) as error:
        ServerConfig(**options)  # type: ignore[arg-type]
    (line,) = error.value.lines
    assert why in line
    assert "pw" not in line


def test_flags_and_the_effective_configuration(tmp_path: Path) -> None:
    flags = ["--etcd-servers=https://a:2379,https://b:2379", "--etcd-cafile=/pki/ca.pem", "--etcd-prefix=/shop"]
    config = merged(ServerConfig, [read_flags(OPTIONS, flags)[0]])
    url = "etcd://a:2379,b:2379/shop?ca=/pki/ca.pem"
    assert config.storage == url
    file = tmp_path / "server.yaml"
    file.write_text(as_file(config))
    assert f"storage: {url}" in file.read_text()
    assert merged(ServerConfig, [read_file(OPTIONS, file)]).storage == url
    with pytest.raises(ConfigError, match="--etcd-servers=https://a: can't be combined with --storage"):
        merged(ServerConfig, [read_flags(OPTIONS, ["--etcd-servers=https://a", "--storage=memory://"])[0]])
