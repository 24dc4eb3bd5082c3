"""Command lines of kube-apiserver: what has no effect is told, what is wrong is refused, and plugins are switched."""

from __future__ import annotations

from pathlib import Path

import pytest

from oarlock.apps.controllers.quota.limiting import QuotaAdmission
from oarlock.apps.controlplane.collections.namespaces import NamespaceLifecycle
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import KUBE_APISERVER_FLAGS, ControlPlaneOptions, for_control_plane
from oarlock.cli.commands import COMMANDS
from oarlock.server.config import ServerConfig
from oarlock.server.options.commands import Command, UsageError, read_options
from oarlock.server.options.option import ConfigError, options_of

K3S = """
    --advertise-port=6443 --allow-privileged=true --anonymous-auth=false --api-audiences=https://kubernetes.default.svc,k3s
    --authorization-mode=Node,RBAC --bind-address=127.0.0.1 --cert-dir=/var/lib/k3s/temporary-certs
    --egress-selector-config-file=/etc/egress.yaml --enable-admission-plugins=NodeRestriction
    --enable-aggregator-routing=true --enable-bootstrap-token-auth=true --etcd-servers=http://127.0.0.1:2379
    --kubelet-certificate-authority=/a --kubelet-client-certificate=/b --kubelet-client-key=/c
    --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname --profiling=false
    --proxy-client-cert-file=/d --proxy-client-key-file=/e --requestheader-allowed-names=system:auth-proxy
    --requestheader-client-ca-file=/f --requestheader-extra-headers-prefix=X-Remote-Extra-
    --requestheader-group-headers=X-Remote-Group
    --requestheader-username-headers=X-Remote-User --secure-port=6444
    --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=10.43.0.0/16
    --service-node-port-range=30000-32767 --storage-backend=etcd3
    --tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
"""
KUBEADM = """
    --advertise-address=172.18.0.2 --allow-privileged=true --authorization-mode=Node,RBAC
    --enable-admission-plugins=NodeRestriction --enable-bootstrap-token-auth=true --etcd-servers=https://127.0.0.1:2379
    --kubelet-preferred-address-types=InternalIP --runtime-config= --secure-port=6443
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-cluster-ip-range=10.96.0.0/16
    --feature-gates=KubeletInUserNamespace=true,WatchList=false --v=2
"""
UP = next(one for one in COMMANDS.loaded() if isinstance(one, Command) and one.name == "up")


def read(text: str) -> ControlPlaneOptions:
    options = read_options(UP.options, text.split(), "oarlock up", UP.unused)
    assert isinstance(options, ControlPlaneOptions)
    return options


@pytest.mark.parametrize("text", [K3S, KUBEADM], ids=["k3s", "kubeadm"])
def test_command_lines_of_others_are_taken(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = read(text)
    told = capsys.readouterr().err
    assert "oarlock: --allow-privileged: no effect here: nothing runs in containers\n" in told
    assert "--storage-backend" not in told
    assert ControlPlane(options=options).missing_plugins == ["NodeRestriction"]


def test_flags_with_one_reason_are_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    read("--kubelet-port=10250 --kubelet-read-only-port 0 --kubelet-port=10251 --insecure-port=0 --watch-cache")
    assert (
        capsys.readouterr().err
        == "oarlock: --kubelet-port, --kubelet-read-only-port: no effect here: nodes say the ports of their kubelets\n"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("--insecure-port=8080", "--insecure-port=8080: there is no port without TLS; leave it out, or give 0"),
        (
            "--storage-backend=etcd2",
            "--storage-backend=etcd2: --storage says where objects are; leave it out, or give etcd3",
        ),
        ("--feature-gates=A=maybe", "--feature-gates=A=maybe: A=maybe: a gate is true or false"),
        ("--runtime-config=api/all", "--runtime-config=api/all: api/all isn't NAME=VALUE"),
        ("--kubelet-timeout=x", '--kubelet-timeout=x: time: invalid duration "x"; write a duration like 90s or 1m30s'),
        ("--event-ttl=2h", "--event-ttl=2h: events last for an hour; leave it out, or give 1h0m0s"),
    ],
)
def test_wrong_values_are_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(text)
    assert raised.value.lines == (told,)


def test_a_flag_without_its_value_is_refused() -> None:
    with pytest.raises(UsageError, match="--kubelet-client-key needs a value: FILE"):
        read("--kubelet-client-key")


def test_a_plugin_is_disabled() -> None:
    def plugins(*disabled: str) -> set[type]:
        options = ControlPlaneOptions(disable_admission_plugins=disabled)
        return {type(one) for one in ControlPlane(options=options).admission}

    assert plugins() - plugins("NamespaceLifecycle", "ResourceQuota") == {NamespaceLifecycle, QuotaAdmission}


def test_a_flag_has_one_meaning() -> None:
    names = [one.flag for one in KUBE_APISERVER_FLAGS]
    assert len(names) == len(set(names))
    assert not {*names} & {one.flag for one in options_of(UP.options)}


def test_the_certificate_in_the_directory_of_certificates_is_served(tmp_path: Path) -> None:
    assert for_control_plane(ServerConfig(cert_dir=tmp_path)).tls_cert_file is None
    for name in ("apiserver.crt", "apiserver.key"):
        (tmp_path / name).touch()
    config = for_control_plane(ServerConfig(cert_dir=tmp_path))
    assert (config.tls_cert_file, config.tls_private_key_file) == (
        tmp_path / "apiserver.crt",
        tmp_path / "apiserver.key",
    )
    given = ServerConfig(cert_dir=tmp_path, tls_cert_file=Path("a"), tls_private_key_file=Path("b"))
    assert for_control_plane(given).tls_cert_file == Path("a")
