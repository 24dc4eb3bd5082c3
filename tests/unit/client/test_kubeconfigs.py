"""Kubeconfigs are read as kubectl reads them; what is wrong in one is told with its file and field."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from oarlock.client.login.kubeconfig import (
    ClientConfigError,
    environment_proxy,
    in_cluster_config,
    load_config,
    load_kubeconfig,
)

WHOLE = """
apiVersion: v1
kind: Config
current-context: dev
contexts:
- name: dev
  context: {cluster: one, user: me, namespace: shop}
- name: other
  context: {cluster: one, user: robot}
clusters:
- name: one
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority: pki/ca.crt
    tls-server-name: kubernetes
    proxy-url: http://127.0.0.1:3128
users:
- name: me
  user:
    client-certificate-data: QUJD
    client-key-data: REVG
    as: jane
    as-groups: [devs]
- name: robot
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./login
      args: [token]
      env: [{name: HOUSE, value: red}]
      installHint: get it from the team
"""


ROBOT = WHOLE.replace("current-context: dev", "current-context: other")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(WHOLE)
    return path


def test_the_current_context_counts_unless_another_is_named(kubeconfig: Path) -> None:
    config = load_kubeconfig(kubeconfig)
    assert config.server == "https://127.0.0.1:6443"
    assert config.ca_file == kubeconfig.parent / "pki" / "ca.crt"
    assert (config.tls_server_name, config.proxy_url) == ("kubernetes", "http://127.0.0.1:3128")
    assert (config.cert_data, config.key_data) == (b"ABC", b"DEF")
    assert config.user is not None
    assert (config.user.name, config.user.groups) == ("jane", ("devs",))
    assert config.namespace == "shop"
    plugin = load_kubeconfig(kubeconfig, context="other").exec_plugin
    assert plugin is not None
    assert plugin.command == str(kubeconfig.parent / "./login")
    assert (plugin.args, plugin.env) == (("token",), {"HOUSE": "red"})


def test_files_of_the_environment_are_merged_and_the_first_counts(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tmp_path / "first"
    first.write_text("current-context: other\nusers: [{name: robot, user: {token: abc}}]\n")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'missing'}:{kubeconfig}")
    config = load_config()
    assert (config.token, config.exec_plugin) == ("abc", None)
    assert config.server == "https://127.0.0.1:6443"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "config: error converting YAML"),
        ("[]", "config: this isn't a kubeconfig"),
        ("clusters: 3", "config: clusters is a list"),
        ("clusters: [3]", "config: clusters: each is a mapping"),
        ("apiVersion: v1", "config: it has no current-context"),
        ("current-context: x", "config: it has no context 'x': write one of none"),
        (
            WHOLE.replace("server: https", "server: ftp"),
            "cluster 'one': server: 'ftp://127.0.0.1:6443' isn't the URL",
        ),
        (WHOLE.replace("QUJD", "Q"), "config: user 'me': client-certificate-data isn't base64"),
        (WHOLE.replace("user: me", "user: you"), "it has no user 'you': write one of me, robot"),
        ("current-context: [a]", "config: current-context is a list, not a string"),
        ("clusters: [{name: [x], cluster: {}}]", "config: clusters: each is a mapping with name and cluster"),
        ("contexts: [{name: x, context: 7}]", "config: contexts: each is a mapping with name and context"),
        (WHOLE.replace("server: https://127.0.0.1:6443", "server: 7"), "cluster 'one': server is a int, not a string"),
        (WHOLE.replace("127.0.0.1:6443", "[::1"), "server: 'https://[::1' isn't the URL"),
        (WHOLE.replace("127.0.0.1:6443", "127.0.0.1:66666"), "isn't the URL of a server"),
        (WHOLE.replace("127.0.0.1:6443", ""), "server: 'https://' isn't the URL"),
        (
            WHOLE.replace("https://127.0.0.1:6443", "' https://127.0.0.1:6443'"),
            "server: ' https://127.0.0.1:6443' isn't the",
        ),
        (WHOLE.replace("127.0.0.1:6443", "a b"), "server: 'https://a b' isn't the URL"),
        (WHOLE.replace("http://127.0.0.1:3128", "ftp://u:p@127.0.0.1"), "proxy-url must be a URL that begins with"),
        (WHOLE.replace("http://127.0.0.1:3128", "socks5://:1080"), "proxy-url must be a URL that begins with"),
        (WHOLE.replace("pki/ca.crt", '"pki\\0ca"'), "certificate-authority has a line break or another control"),
        (WHOLE.replace("as: jane", 'as: "a\\r\\nx: y"'), "user 'me': as has a line break"),
        (WHOLE.replace("as: jane", 'token: "a\\nb"'), "user 'me': token has a line break"),
        (WHOLE.replace("as: jane", "as: [jane]"), "user 'me': as is a list, not a string"),
        (WHOLE.replace("as: jane", "x: y"), "user 'me': as is missing"),
        (WHOLE.replace("[devs]", "devs"), "user 'me': as-groups is a list"),
        (WHOLE.replace("[devs]", "[7]"), "user 'me': as-groups is a list of strings"),
        (WHOLE.replace("[devs]", "[devs]\n    as-user-extra: {a: b}"), "user 'me': as-user-extra.a is a list"),
        (
            WHOLE.replace("tls-server-name: kubernetes", "insecure-skip-tls-verify: 1"),
            "skip-tls-verify is true",
        ),
        ("a: " + "[" * 100_000, "config: "),
        (ROBOT.replace("command: ./login", "x: y"), "user 'robot': exec.command is missing"),
        (ROBOT.replace("args: [token]", "args: token"), "user 'robot': exec.args is a list"),
        (ROBOT.replace("[{name: HOUSE, value: red}]", "[7]"), "user 'robot': exec.env is a list of mappings"),
        (ROBOT.replace("value: red", "value: 7"), "user 'robot': exec.env: value is a int"),
        (
            ROBOT.replace("k8s.io/v1", "k8s.io/v1alpha1"),
            "exec.apiVersion: 'client.authentication.k8s.io",
        ),
        (
            ROBOT.replace("installHint: get it", "interactiveMode: Always #"),
            "exec.interactiveMode: a plugin",
        ),
        (ROBOT + "    auth-provider: {name: gcp}\n", "auth-provider.name: 'gcp' isn't supported any more: use an exec"),
        (ROBOT + "    auth-provider: {name: oidc, config: 7}\n", "auth-provider.config is a mapping"),
        (ROBOT + "    auth-provider: {name: oidc}\n", "auth-provider.config.idp-issuer-url: '' isn't a URL"),
        (
            ROBOT + "    auth-provider: {name: oidc, config: {idp-issuer-url: 'https://x'}}\n",
            "auth-provider.config.client-id is missing",
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ClientConfigError) as error:
        load_kubeconfig(path)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_too_large_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClientConfigError, match="nothing: No such file"):
        load_kubeconfig(tmp_path / "nothing")
    large = tmp_path / "large"
    with large.open("wb") as opened:
        opened.truncate(9 * 1024 * 1024)
    with pytest.raises(ClientConfigError, match="at most"):
        load_kubeconfig(large)


def test_secrets_are_not_shown(kubeconfig: Path) -> None:
    kubeconfig.write_text(WHOLE.replace("as: jane", "token: s3cret").replace("as-groups: [devs]", ""))
    shown = repr(load_kubeconfig(kubeconfig))
    assert "s3cret" not in shown
    assert repr(base64.b64decode("REVG")) not in shown


def test_a_pod_has_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    (tmp_path / "namespace").write_text("shop\n")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster_config(tmp_path, environment)
    assert config.server == "https://[fd00::1]:443"
    assert (config.token_file, config.ca_file) == (tmp_path / "token", tmp_path / "ca.crt")
    assert config.namespace == "shop"
    with pytest.raises(ClientConfigError, match="this isn't a pod"):
        in_cluster_config(tmp_path, {})
    (tmp_path / "namespace").write_bytes(b"\xff")
    assert in_cluster_config(tmp_path, environment).namespace == "default"
    with pytest.raises(ClientConfigError, match="make no URL"):
        in_cluster_config(tmp_path, {**environment, "KUBERNETES_SERVICE_PORT": "http"})


@pytest.mark.parametrize(
    ("server", "exceptions", "proxy"),
    [
        ("https://shop.example.com", "", "http://proxy:3128"),
        ("http://shop.example.com", "", ""),
        ("https://127.0.0.1:6443", "", ""),
        ("https://[::1]:6443", "", ""),
        ("https://localhost", "", ""),
        ("https://shop.example.com", "*", ""),
        ("https://shop.example.com", "x.org, example.com", ""),
        ("https://shop.example.com", ".example.com", ""),
        ("https://example.com", ".example.com", "http://proxy:3128"),
        ("https://myexample.com", "example.com", "http://proxy:3128"),
        ("https://shop.example.com:6443", "example.com:6443", ""),
        ("https://shop.example.com", "example.com:6443", "http://proxy:3128"),
        ("https://10.1.2.3", "10.0.0.0/8", ""),
        ("https://10.1.2.3", "10.1.2.3", ""),
        ("https://10.1.2.3", "10.1.2.4,300.0.0.0/8", "http://proxy:3128"),
        ("https://[fd00::1]", "fd00::/8", ""),
    ],
)
def test_the_environment_names_a_proxy_unless_it_excepts_the_server(server: str, exceptions: str, proxy: str) -> None:
    environment = {"HTTPS_PROXY": "proxy:3128", "NO_PROXY": exceptions}
    assert environment_proxy(server, environment) == proxy


def test_a_kubeconfigs_proxy_comes_before_the_environments(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig.write_text(WHOLE.replace("127.0.0.1:6443", "shop.example.com"))
    monkeypatch.setenv("HTTPS_PROXY", "http://other:3128")
    assert load_kubeconfig(kubeconfig).proxy_url == "http://127.0.0.1:3128"
    kubeconfig.write_text(WHOLE.replace("127.0.0.1:6443", "shop.example.com").replace("proxy-url", "x"))
    assert load_kubeconfig(kubeconfig).proxy_url == "http://other:3128"


def test_a_proxy_may_be_one_of_socks(kubeconfig: Path) -> None:
    kubeconfig.write_text(WHOLE.replace("http://127.0.0.1:3128", "socks5h://u:p@127.0.0.1"))
    assert load_kubeconfig(kubeconfig).proxy_url == "socks5h://u:p@127.0.0.1"


def test_whoever_is_impersonated_may_have_more_than_a_name(kubeconfig: Path) -> None:
    kubeconfig.write_text(WHOLE.replace("[devs]", "[devs]\n    as-uid: '7'\n    as-user-extra: {house: [red, blue]}"))
    user = load_kubeconfig(kubeconfig).user
    assert user is not None
    assert (user.uid, user.extra) == ("7", {"house": ("red", "blue")})
