"""`OwnObjects`: what a control plane says of itself in objects, as kube-apiserver and kubeadm do.

- the ConfigMap ``cluster-info`` in ``kube-public``, which anybody may read: where the server is, and its CA
- the Service ``kubernetes`` in ``default`` with its Endpoints and EndpointSlice, where these kinds are served
- the ConfigMap ``kube-apiserver-legacy-service-account-token-tracking`` in ``kube-system``: since when the use of
  secrets with tokens is tracked, for kube-controller-manager
- the ConfigMap ``extension-apiserver-authentication``: whom extension servers may believe (`PublishedTrust`). Every
  server adds what it knows, and removes nothing of the others': a backend must believe all of them. What leaves it are
  authorities that have ended, and those that somebody removes and no server adds again
- the Lease of its identity in ``kube-system``; those of servers that are gone are removed (`IdentityLeases`)

Every server of a store does this. Source: kube-apiserver's controller of cluster authentication trust, and Kubernetes'
garbage collector of API server identity leases, in behaviour. See also: ``server.cluster_trust``, which reads it.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import logging
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from oarlock.apps.controlplane.collections.identities import IdentitiesSource
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.apps.kinds.coordination import Lease, LeaseSpec
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.transport import TransportError
from oarlock.codec import json, yaml
from oarlock.codec.errors import DecodeError
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.meta import errors
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import AlreadyExists, Conflict, NotFound, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.net.url import parse_url
from oarlock.schema.types.shapes import ObjectMeta
from oarlock.server.cluster.trust import NAME, NAMESPACE
from oarlock.server.description import ServerAddress

log = logging.getLogger("oarlock.controlplane")

CONFIG_MAP = "v1/ConfigMap"
CLIENTS, PROXIES = "client-ca-file", "requestheader-client-ca-file"
NAMES = "requestheader-allowed-names"
HEADERS = (
    "requestheader-username-headers",
    "requestheader-uid-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
)
MOST_BYTES = 128 * 1024
"""The longest value that is added to; it has some hundred authorities. Reading more would hold up the server."""
SLACK = timedelta(minutes=5)
"""How long an authority is kept after its end, for those whose clocks are behind."""

Data = Mapping[str, str]


class PublishedTrust:
    """What one server publishes: what its options say, and the `own` authority of a certificate that it made."""

    def __init__(self, identities: IdentitiesSource, now: Callable[[], float] = time.time) -> None:
        self._identities = identities
        self._now = now
        self._own: Data = {}

    def begin(self) -> None:
        """A server starts, which hasn't made a certificate yet."""
        self._own = {}

    async def publish_own(self, client: Client, own: Data) -> None:
        """Publish this too, from now on."""
        self._own = own
        await self.publish(client)

    async def publish(self, client: Client) -> None:
        """Bring the ConfigMap up to date. May be repeated at any time."""
        known = self._identities()
        if known is None and not self._own:
            return
        wanted = {**self._own, **({} if known is None else known.published())}

        def change(tree: dict[str, Any]) -> None:
            data = tree.get("data") or {}
            merged = _merged(data, wanted, datetime.fromtimestamp(self._now(), UTC))
            if merged.items() - data.items():
                tree["data"] = {**data, **merged}

        try:
            await client.change(CONFIG_MAP, NAME, change, namespace=NAMESPACE)
        except NotFound:
            tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": wanted}
            try:
                await client.create(tree, namespace=NAMESPACE)
            except AlreadyExists:  # another server was faster
                await client.change(CONFIG_MAP, NAME, change, namespace=NAMESPACE)
            except NotFound:
                pass  # ConfigMaps aren't served here


def _merged(stored: Mapping[str, Any], wanted: Data, moment: datetime) -> dict[str, str]:
    """What is to be stored under the names in `wanted`: what both say.

    Names and headers that are stored without an authority are left out.
    """
    merged = {key: _bundle(stored, wanted, key, moment) for key in (CLIENTS, PROXIES) if key in wanted}
    if PROXIES in wanted:
        before = stored if stored.get(PROXIES) else {}
        merged[NAMES] = _list(before, wanted, NAMES, str)
        merged.update((key, _list(before, wanted, key, str.lower)) for key in HEADERS)
    return merged


def _bundle(stored: Mapping[str, Any], wanted: Data, key: str, moment: datetime) -> str:
    text, own = str(stored.get(key) or ""), wanted[key]
    if text in ("", own):
        return own
    try:
        if len(text) > MOST_BYTES:
            raise ValueError(f"it is longer than {MOST_BYTES} bytes")
        before = x509.load_pem_x509_certificates(text.encode())
    except ValueError as error:
        log.error("%s/%s: %s can't be read, and is written anew: %s", NAMESPACE, NAME, key, error)
        return own
    lasting = [certificate for certificate in before if certificate.not_valid_after_utc + SLACK > moment]
    every = [*lasting, *x509.load_pem_x509_certificates(own.encode())]
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in dict.fromkeys(every))


def _list(stored: Mapping[str, Any], wanted: Data, key: str, same: Callable[[str], str]) -> str:
    """Two lists of texts as one, in JSON."""
    texts: dict[str, str] = {}
    for text in (*_texts(stored.get(key), key), *_texts(wanted.get(key), key)):
        texts.setdefault(same(text), text)
    return json.encode([*texts.values()]).decode()


def _texts(text: Any, key: str) -> list[str]:
    """A list of texts in JSON. One that can't be read counts for nothing."""
    try:
        values = json.decode(str(text or "[]")[:MOST_BYTES].encode())
    except DecodeError:
        values = None
    if isinstance(values, list) and all(isinstance(value, str) and value for value in values):
        return values
    log.error("%s/%s: %s is no list of texts in JSON, and is written anew", NAMESPACE, NAME, key)
    return []


AGAIN_S = 60.0
"""How long until a lease without an end is looked at again."""


class IdentityLeases(
    Controller[Lease],
    name="apiserver-identity-lease-controller",
    namespace=NAMESPACE,
    label_selector="apiserver.kubernetes.io/identity=kube-apiserver",
):
    """Comes to each Lease when its time is over."""

    _clock: TimerClock

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        lease = self.informer.get(key.name, key.namespace)
        if lease is None:
            return None
        spec, metadata = lease.spec, lease.metadata
        if spec.renew_time is None or not spec.lease_duration_seconds:
            return Result(AGAIN_S)
        left_s = spec.renew_time.timestamp() + spec.lease_duration_seconds - self._clock.now()
        if left_s > 0:
            return Result(left_s)
        try:
            await self.client.delete(
                Lease,
                key.name,
                namespace=key.namespace,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            )
        except (NotFound, Conflict):
            pass  # it is gone, or was renewed
        return None


IDENTITY = "apiserver.kubernetes.io/identity"
ADDRESS = "oarlock.dev/advertised-address"
KIND = "kube-apiserver"

RENEW_S = 10.0
VALID_S = 3600
"""How long a lease is valid that isn't renewed; then any server removes it."""
LATE_S = 3 * RENEW_S
"""A server that hasn't renewed its lease for so long is no endpoint any more."""


class ServerLease:
    """The lease of the server at `place`, its host and port: workers of one server share it."""

    def __init__(self, place: str, advertised: str) -> None:
        digest = hashlib.sha256(place.encode()).digest()[:16]
        self._name = "apiserver-" + base64.b32encode(digest).decode().rstrip("=").lower()
        self._holder = f"{self._name}_{uuid.uuid4()}"
        self._place = place
        self._advertised = advertised

    async def renew(self, client: Client, clock: TimerClock) -> Sequence[str]:
        """Renew it, and remove those that are no longer valid. Returns where the servers are that run."""
        servers: dict[str, str] = {}
        mine: Lease | None = None
        now = datetime.fromtimestamp(clock.now(), UTC)
        async for lease in client.list(Lease, namespace=NAMESPACE, label_selector=f"{IDENTITY}={KIND}"):
            age_s = _age_s(lease, now)
            if lease.metadata.name == self._name:
                mine = lease
            elif age_s > (lease.spec.lease_duration_seconds or VALID_S):
                await self._remove(client, lease)
            elif age_s <= LATE_S:
                servers[lease.metadata.name] = lease.metadata.annotations.get(ADDRESS, "")
        servers[self._name] = self._advertised
        await self._write(client, mine, now)
        return [address for address in servers.values() if address]

    async def _write(self, client: Client, mine: Lease | None, now: datetime) -> None:
        if mine is None:
            await self._create(client, now)
            return
        if mine.spec.holder_identity != self._holder and _age_s(mine, now) < LATE_S - RENEW_S / 2:
            return  # another worker renews it
        if mine.spec.holder_identity != self._holder:
            mine.spec.acquire_time = None
        mine.spec.holder_identity, mine.spec.renew_time = self._holder, now
        if self._advertised:
            mine.metadata.annotations[ADDRESS] = self._advertised
        try:
            await client.update(mine)
        except (errors.Conflict, errors.NotFound):
            pass  # the next renewal reads it again

    async def _create(self, client: Client, now: datetime) -> None:
        metadata = ObjectMeta(
            name=self._name,
            namespace=NAMESPACE,
            labels={IDENTITY: KIND, "kubernetes.io/hostname": self._place.rpartition(":")[0]},
            annotations={ADDRESS: self._advertised} if self._advertised else {},
        )
        spec = LeaseSpec(holder_identity=self._holder, lease_duration_seconds=VALID_S, renew_time=now)
        try:
            await client.create(Lease(metadata=metadata, spec=spec))
        except errors.AlreadyExists:
            pass  # another worker was faster

    async def _remove(self, client: Client, lease: Lease) -> None:
        try:
            await client.delete(
                Lease, lease.metadata.name, namespace=NAMESPACE, resource_version=lease.metadata.resource_version
            )
        except (errors.Conflict, errors.NotFound):
            pass  # it was renewed, or another server was faster


def _age_s(lease: Lease, now: datetime) -> float:
    renewed = lease.spec.renew_time
    return float("inf") if renewed is None else (now - renewed).total_seconds()


ROUNDS = 6
"""Every so many renewals everything is looked at."""

UpkeepStep = Callable[[Client], Awaitable[None]]
Renewal = Callable[[Client, TimerClock], Awaitable[None]]


def _ignore_warning(warning: str) -> None:
    """Endpoints are deprecated, and have to be kept all the same."""


class Upkeep:
    """A `Runnable`: `renew` every ten seconds, and every minute the `steps`, which may be repeated at any time."""

    def __init__(self, renew: Renewal, steps: Sequence[UpkeepStep]) -> None:
        self._renew = renew
        self._steps = steps

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled."""
        client, rounds = client.using(field_manager="oarlock", on_warning=_ignore_warning), 0
        while True:
            try:
                await self._renew(client, clock)
                if rounds % ROUNDS == 0:
                    for step in self._steps:
                        await step(client)
            except (StatusError, TransportError) as error:
                log.warning("the server's own objects could not be kept, trying again in %g s: %s", RENEW_S, error)
            rounds += 1
            await clock.sleep(RENEW_S)


_INFO_ROLE = "kubeadm:bootstrap-signer-clusterinfo"
"""kubeadm's name, so that it finds its own."""
_RBAC = "rbac.authorization.k8s.io"
_HTTPS: Tree = {"name": "https", "port": 443, "protocol": "TCP"}


@dataclass(frozen=True, slots=True)
class _Advertised:
    """Where other machines reach this server; no `ip` if it listens for its own machine only."""

    ip: str
    port: int

    @property
    def text(self) -> str:
        """As an annotation has it."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class OwnObjects:
    """Keeps the objects of one server."""

    def __init__(self, address: Callable[[], ServerAddress | None], options: ControlPlaneOptions) -> None:
        self._address = address
        self._options = options
        self._lease: ServerLease | None = None

    async def start(self, client: Client) -> None:
        """A server starts: the address of the one before was another."""
        self._lease = None
        await self.publish(client)

    async def publish(self, client: Client) -> None:
        """Say where the server is. May be repeated at any time."""
        address = self._address()
        if address is None:
            return
        own = _advertised(address.url, self._options.advertise_address)
        service = _service(own.port, self._options.service_cluster_ip_range)
        for tree in (_cluster_info(address), *_readers_of_cluster_info(), service):
            await _keep(client, tree)

    async def renew(self, client: Client, clock: TimerClock) -> None:
        """Renew the lease, and let the Service's endpoints be those of the servers that did so lately."""
        address = self._address()
        if address is None:
            return
        own = _advertised(address.url, self._options.advertise_address)
        if self._lease is None:
            self._lease = ServerLease(f"{socket.gethostname()}:{own.port}", own.text if own.ip else "")
        servers = await self._lease.renew(client, clock)
        client = client.using(on_warning=lambda text: None)  # that Endpoints are old is no news
        addresses = [_parsed(text) for text in sorted(set(servers))]
        for tree in (_endpoints(addresses), _slice(addresses)):
            await _keep(client, tree, anew=True)


async def keep_tracking(client: Client) -> None:
    """Say since when tokens in secrets are tracked: since this was first said, as far as that can be read."""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    metadata = {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"}
    wanted: Tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"since": today}}
    await _keep(client, wanted)

    def mend(found: Tree) -> None:
        try:
            date.fromisoformat((found.get("data") or {}).get("since", ""))
        except ValueError:
            found["data"] = {**(found.get("data") or {}), "since": today}

    try:
        await client.change("v1/ConfigMap", metadata["name"], mend, namespace=metadata["namespace"])
    except NotFound:
        pass  # the kind isn't served, or somebody removes it: it comes again


async def _keep(client: Client, wanted: Tree, *, anew: bool = False) -> None:
    """Create what is missing, if its kind is served, and with `anew` change what differs."""
    kind, metadata = f"{wanted['apiVersion']}/{wanted['kind']}", wanted["metadata"]
    try:
        found = await client.get(kind, metadata["name"], namespace=metadata["namespace"])
    except NotFound:
        try:
            await client.create(wanted, namespace=metadata["namespace"])
        except (AlreadyExists, NotFound):
            pass  # another server was faster, or the kind isn't served
        return
    parts = [name for name in wanted if name not in ("apiVersion", "kind", "metadata")]
    if anew and any(found.get(name) != wanted[name] for name in parts):
        patch = {name: wanted[name] for name in parts}
        await client.patch(kind, metadata["name"], patch, namespace=metadata["namespace"])


def _cluster_info(address: ServerAddress) -> Tree:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": _cluster(address)}],
        "contexts": None,
        "current-context": "",
        "users": None,
    }
    metadata = {"name": "cluster-info", "namespace": "kube-public"}
    data = {"kubeconfig": yaml.encode(config).decode()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _cluster(address: ServerAddress) -> Tree:
    ca = {} if address.ca is None else {"certificate-authority-data": base64.b64encode(address.ca).decode()}
    return {**ca, "server": address.url}


def _readers_of_cluster_info() -> list[Tree]:
    metadata = {"name": _INFO_ROLE, "namespace": "kube-public"}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}
    anybody = {"apiGroup": _RBAC, "kind": "User", "name": "system:anonymous"}
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": _INFO_ROLE}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": reference,
        "subjects": [anybody],
    }
    return [role, binding]


def _service(port: int, ranges: str) -> Tree:
    first = ipaddress.ip_network(ranges.partition(",")[0].strip())
    spec = {"type": "ClusterIP", "clusterIP": str(first[1]), "ports": [{**_HTTPS, "targetPort": port}]}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    metadata = {"name": "kubernetes", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _endpoints(addresses: Sequence[_Advertised]) -> Tree:
    by_port: dict[int, list[Tree]] = {}
    for address in addresses:
        by_port.setdefault(address.port, []).append({"ip": address.ip})
    subsets = [{"addresses": ips, "ports": [{**_HTTPS, "port": port}]} for port, ips in sorted(by_port.items())]
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    metadata = {"name": "kubernetes", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets or None}


def _slice(addresses: Sequence[_Advertised]) -> Tree:
    kind = "IPv6" if any(":" in address.ip for address in addresses) else "IPv4"
    shown = [address for address in addresses if (":" in address.ip) == (kind == "IPv6")]
    endpoints = [{"addresses": [address.ip], "conditions": {"ready": True}} for address in shown]
    ports = [{**_HTTPS, "port": port} for port in sorted({address.port for address in shown})]
    metadata = {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"kubernetes.io/service-name": "kubernetes"},
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": kind,
        "endpoints": endpoints,
        "ports": ports or None,
    }


def _parsed(text: str) -> _Advertised:
    host, _, port = text.rpartition(":")
    return _Advertised(host.strip("[]"), int(port))


def _advertised(url: str, given: str) -> _Advertised:
    own = parse_url(url)
    host, port = given or own.hostname, own.port
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return _Advertised("", port)
    if ip.is_unspecified:
        return _Advertised(_address_of_this_machine(ip.version), port)
    return _Advertised("" if ip.is_loopback else str(ip), port)


def _address_of_this_machine(version: int) -> str:
    """The address from which this machine would send to others; empty if it has none. Nothing is sent."""
    family, elsewhere = (socket.AF_INET6, "2001:db8::1") if version == 6 else (socket.AF_INET, "192.0.2.1")
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""
