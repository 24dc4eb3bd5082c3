"""The flags of kube-apiserver that are taken for the sake of its command lines, and have no effect here.

Flags that have one are options. Names and forms: ``kube-apiserver --help`` of 1.36, and older ones that k3s, kubeadm
and envtest still give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oarlock.server.options.flags import UnusedFlag
from oarlock.server.options.types import (
    BooleanType,
    DurationType,
    IntegerType,
    OptionType,
    SeparateListType,
    StringListType,
    StringType,
)

_KUBELET_PORT = "nodes say the ports of their kubelets"
_KUBELETS = "requests to kubelets have no deadline of their own"
_NODES = "nothing runs in containers"
_OWN_CACHE = "the watch cache always has every object"
_STORE = "the store looks after itself"
_ONE_STORE = "there is one store for everything"
_KINDS = "what is served is said by --disable"
_GATES = "there are no feature gates: all implemented features are on"
_METRICS = "metrics can't be chosen"
_LOGS = "the log has one form; -v says how much of it"
_NETWORK = "connections are made as the system makes them"
_SHUTDOWN = "a server that leaves ends watches at once"
_PROXY = "aggregated servers are never called with this identity"
_PLAIN = "there is no port without TLS"
_BINDING = "each address and port is taken by one server; use --workers"
_TOKENS = "tokens last as long as they were asked for"
_ADMISSION = "no plugin reads a configuration"
_EVENTS = "events last for an hour"
_STORED = "objects are stored as JSON"


def _pair(text: str) -> str:
    """A name and a value. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise ValueError(f"{text} isn't NAME=VALUE")
    return text


def _gate(text: str) -> str:
    """A feature gate, perhaps of a component. Raises ValueError."""
    name, _, value = _pair(text).rpartition("=")
    if value.lower() not in ("true", "false", "1", "0", "t", "f"):
        raise ValueError(f"{name}={value}: a gate is true or false")
    return text


_BOOLEAN, _NUMBER, _TIME, _TEXT = BooleanType(), IntegerType(), DurationType(), StringType("TEXT")
_LIST, _PAIRS, _GATE = StringListType("NAMES"), SeparateListType("PAIRS", _pair), StringListType("GATES", _gate)


def _flags(why: str, kind: OptionType, names: str, only: Iterable[str] = ()) -> Iterator[UnusedFlag]:
    for name in names.split():
        yield UnusedFlag(name, kind, why, tuple(only))


KUBE_APISERVER_FLAGS: tuple[UnusedFlag, ...] = (
    *_flags(_NODES, _BOOLEAN, "allow-privileged"),
    *_flags(_KUBELET_PORT, _NUMBER, "kubelet-port kubelet-read-only-port"),
    *_flags(_KUBELETS, _TIME, "kubelet-timeout"),
    *_flags(_PLAIN, _NUMBER, "insecure-port port", only=("0",)),
    *_flags(_PLAIN, _TEXT, "insecure-bind-address"),
    *_flags("write --http2=false instead", _BOOLEAN, "disable-http2-serving", only=("false",)),
    *_flags(_KINDS, StringListType("VERSIONS", _pair), "runtime-config"),
    *_flags(_GATES, _GATE, "feature-gates"),
    *_flags(_GATES, _BOOLEAN, "emulation-forward-compatible runtime-config-emulation-forward-compatible"),
    *_flags(_STORED, _TEXT, "storage-media-type", only=("application/json", "application/vnd.kubernetes.protobuf")),
    *_flags("--storage says where objects are", _TEXT, "storage-backend", only=("etcd3",)),
    *_flags(_ONE_STORE, _TEXT, "etcd-servers-overrides"),
    *_flags(_STORE, _NUMBER, "delete-collection-workers lease-reuse-duration-seconds"),
    *_flags(_STORE, _TIME, "etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout"),
    *_flags(_STORE, _TIME, "etcd-readycheck-timeout storage-initialization-timeout"),
    *_flags("--controllers says whether it runs", _BOOLEAN, "enable-garbage-collector", only=("true",)),
    *_flags(_OWN_CACHE, _BOOLEAN, "watch-cache", only=("true",)),
    *_flags(_OWN_CACHE, _NUMBER, "default-watch-cache-size"),
    *_flags(_OWN_CACHE, _LIST, "watch-cache-sizes"),
    *_flags(_METRICS, _TEXT, "allow-metric-labels-manifest show-hidden-metrics-for-version"),
    *_flags(_METRICS, _PAIRS, "allow-metric-labels"),
    *_flags(_METRICS, _LIST, "disabled-metrics"),
    *_flags(_LOGS, _TEXT, "logging-format vmodule log-json-info-buffer-size log-text-info-buffer-size"),
    *_flags(_LOGS, _TIME, "log-flush-frequency"),
    *_flags(_LOGS, _BOOLEAN, "log-json-split-stream log-text-split-stream logtostderr alsologtostderr"),
    *_flags(_LOGS, _BOOLEAN, "enable-logs-handler contention-profiling"),
    *_flags(_LOGS, _TEXT, "debug-socket-path tracing-config-file"),
    *_flags(_NETWORK, _TEXT, "egress-selector-config-file external-hostname cloud-config cloud-provider"),
    *_flags(_NETWORK, _NUMBER, "max-connection-bytes-per-sec advertise-port"),
    *_flags(_NETWORK, _TEXT, "peer-advertise-ip peer-advertise-port peer-ca-file"),
    *_flags(_BINDING, _BOOLEAN, "permit-address-sharing permit-port-sharing"),
    *_flags(_SHUTDOWN, _BOOLEAN, "shutdown-send-retry-after"),
    *_flags(_SHUTDOWN, _TIME, "shutdown-watch-termination-grace-period livez-grace-period"),
    *_flags("watches that say no time last for half an hour to an hour", _NUMBER, "min-request-timeout"),
    *_flags(_PROXY, _BOOLEAN, "enable-aggregator-routing aggregator-reject-forwarding-redirects"),
    *_flags(_TOKENS, _BOOLEAN, "service-account-extend-token-expiration"),
    *_flags(_EVENTS, _TIME, "event-ttl", only=("1h0m0s",)),
    *_flags("servers tell each other by Leases", _TEXT, "endpoint-reconciler-type master-service-namespace"),
    *_flags("servers tell each other by Leases", _NUMBER, "apiserver-count identity-lease-duration-seconds"),
    *_flags("servers tell each other by Leases", _NUMBER, "identity-lease-renew-interval-seconds"),
    *_flags("Services have no ports of nodes", _NUMBER, "kubernetes-service-node-port"),
    *_flags("memory isn't planned by it", _NUMBER, "target-ram-mb"),
)
"""By what is told about them."""
