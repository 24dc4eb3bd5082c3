"""Kubeconfigs are read as kubectl reads them; what is wrong in one is told with its file and field."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from oarlock.client.config import ClientConfigError
from oarlock.client.kubeconfig import in_cluster_config, load_config, load_kubeconfig

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
        ("[]", "config: this is no kubeconfig"),
        ("clusters: 3", "config: clusters is a list"),
        ("clusters: [3]", "config: clusters: each is a mapping"),
        ("apiVersion: v1", "config: there is no current-context"),
        ("current-context: x", "config: there is no context 'x'; there is: none"),
        (WHOLE.replace("server: https", "server: ftp"), "config: server: 'ftp://127.0.0.1:6443' is no URL"),
        (WHOLE.replace("QUJD", "Q"), "config: client-certificate-data isn't base64"),
        (WHOLE.replace("user: me", "user: you"), "there is no user 'you'; there is: me, robot"),
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
    kubeconfig.write_text(WHOLE.replace("as: jane", "token: s3cret"))
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
