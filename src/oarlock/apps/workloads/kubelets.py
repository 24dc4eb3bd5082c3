"""`Kubelets`: asks the kubelets of nodes for logs of pods, for commands in them and for connections to them.

A kubelet is at the first address of its node that has a preferred type, over TLS. Connections are upgraded from end to
end; only SPDY that a client tunnels through a WebSocket is unpacked, unless the node can do that.
See also: `proxies`, ``proxy`` of nodes; ``kinds.pods.hooks``, a user's answers in place of a kubelet.
Source: Kubernetes' ``kubelet/client`` and registry of pods, ``LogLocation`` and ``streamLocation``.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from oarlock.apps.aggregation.forward import (
    ask_backend,
    passed_back,
    query_of,
    request_headers_without_user,
    send_to_backend,
    switched,
    upgrade_of,
)
from oarlock.apps.aggregation.trust import ProxyCertificate
from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at
from oarlock.endpoints.channels.upgrades import spdy_tunnel, spdy_tunnel_upgrade
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, InternalError, InvalidObject, NoSuchPath, StatusError
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid
from oarlock.meta.json_trees import ReadOnlyTree, Tree
from oarlock.meta.kinds import GroupKind
from oarlock.meta.times import TimeError, parse_rfc3339
from oarlock.net.connecting import Address
from oarlock.net.files import file_signature
from oarlock.net.messages import HttpError, HttpRequest, HttpResponse
from oarlock.net.pool import HTTP1, HttpPool, PoolLimits
from oarlock.net.trust import trusting, trusting_anybody
from oarlock.registry.served import AnyHook, ForwardHook

KUBELET_PORT: Final = 10250
"""The port of kubelets whose nodes don't say one."""

_TUNNELS: Final = "ExtendWebSocketsToKubelet"
"""The feature of nodes whose kubelets unpack SPDY from a WebSocket themselves."""

_MOST_ERROR_BYTES: Final = 10_000
_STREAMS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""The names of streams in a kubelet's query."""


@dataclass(frozen=True, slots=True)
class NodeKubelet:
    """Where the kubelet of a node listens, and the features that the node declares."""

    address: Address
    features: Sequence[str] = ()


class KubeletTrust:
    """The certificate that kubelets are shown, and the authority of theirs; without one none of theirs is checked."""

    def __init__(self, authority: Path | None = None, certificate: Path | None = None, key: Path | None = None) -> None:
        self._authority = authority
        self._certificate = ProxyCertificate(certificate, key)
        self._contexts: dict[bool, tuple[object, ssl.SSLContext]] = {}

    async def checked(self) -> ssl.SSLContext:
        """For connections to kubelets. Another one when files have changed. Raises `HttpError`."""
        return self._context(self._authority is not None)

    async def unchecked(self) -> ssl.SSLContext:
        """The same for clients that want no certificate checked."""
        return self._context(False)

    def _context(self, checked: bool) -> ssl.SSLContext:
        authority = self._authority if checked else None
        stamp = self._certificate.stamp(), file_signature(authority) if authority is not None else None
        known = self._contexts.get(checked)
        if known is None or known[0] != stamp:
            try:
                context = trusting_anybody() if authority is None else trusting(file=authority)
            except (OSError, ValueError) as error:
                raise HttpError(f"unable to load root CA file: {error}", unsent=True) from None
            self._certificate.load(context)
            known = self._contexts[checked] = stamp, context
        return known[1]


class Kubelets:
    """`address_types` are the preferred types of a node's addresses, the best first."""

    def __init__(self, late: LateClient, trust: KubeletTrust, address_types: Sequence[str]) -> None:
        self._late = late
        self._address_types = address_types
        limits = PoolLimits(idle=0)
        self.pool = HttpPool(trust.checked, limits, protocols=(HTTP1,))
        """Connections to kubelets carry one request each."""
        self._unchecked = HttpPool(trust.unchecked, limits, protocols=(HTTP1,))

    async def find(self, name: str) -> NodeKubelet:
        """The kubelet of the node of this name. Raises StatusError."""
        node: ReadOnlyTree = await self._late.client.get("v1/Node", name)
        addresses = at(node, "status.addresses", ())
        by_type = {address.get("type"): address.get("address") or "" for address in reversed(addresses)}
        host = next((by_type[kind] for kind in self._address_types if kind in by_type), None)
        if host is None:
            known = [{key: address.get(key, "") for key in ("type", "address")} for address in addresses]
            shown = " ".join(f"{{{address['type']} {address['address']}}}" for address in known)
            raise StatusError(f"no preferred addresses found; known addresses: [{shown}]")
        port = at(node, "status.daemonEndpoints.kubeletEndpoint.Port", 0)
        address = Address(host, port if port > 0 else KUBELET_PORT, host)
        return NodeKubelet(address, at(node, "status.declaredFeatures", ()))

    def hooks(self) -> Mapping[str, AnyHook]:
        """The subresources of pods that kubelets answer."""
        return {
            "log": ForwardHook("log", self._log, connects=False),
            "exec": ForwardHook("exec", self._exec),
            "attach": ForwardHook("attach", self._attach),
            "portforward": ForwardHook("portforward", self._forward_ports),
        }

    async def _log(self, state: RequestState, pod: Tree, given: Mapping[str, Any]) -> Response:
        name = pod["metadata"]["name"]
        wrong = list(_wrong_log_options(given))
        if wrong:
            raise InvalidObject(GroupKind("", "PodLogOptions"), name, wrong)
        container = _container(pod, given)
        node = at(pod, "spec.nodeName")
        if not node:
            return Response(204, [])
        kubelet = await self.find(node)
        pairs = [(key, _text(value)) for key, value in given.items() if key in _PASSED_OF_LOG and value is not False]
        target = _target(("containerLogs", pod["metadata"]["namespace"], name, container), pairs)
        address = kubelet.address
        pool = self._unchecked if given.get("insecureSkipTLSVerifyBackend") else self.pool
        try:
            answer = await send_to_backend(pool, address, state, HttpRequest("GET", address.text, target))
        except HttpError as error:
            raise StatusError(f'Get "https://{address.text}{target}": {error}') from None
        if isinstance(answer, Response):
            return answer
        if not 200 <= answer.status <= 206:
            raise await _refusal(answer)
        response = passed_back(answer, address.text)
        lines = [line for line in response.headers if line[0] not in ("content-type", "x-content-type-options")]
        response.headers = [*lines, ("content-type", "text/plain"), ("x-content-type-options", "nosniff")]
        return response

    async def _exec(self, state: RequestState, pod: Tree, given: Mapping[str, Any]) -> Response:
        commands = [("command", text) for text in given.get("command") or ()]
        return await self._connected(state, pod, _in_container("exec", pod, given), [*_streams(given), *commands])

    async def _attach(self, state: RequestState, pod: Tree, given: Mapping[str, Any]) -> Response:
        return await self._connected(state, pod, _in_container("attach", pod, given), list(_streams(given)))

    async def _forward_ports(self, state: RequestState, pod: Tree, given: Mapping[str, Any]) -> Response:
        ports = ",".join(map(str, given.get("ports") or ()))
        path = ("portForward", pod["metadata"]["namespace"], pod["metadata"]["name"])
        return await self._connected(state, pod, path, [("port", ports)] if ports else [], tunnels=True)

    async def _connected(
        self,
        state: RequestState,
        pod: Tree,
        path: Sequence[str],
        pairs: Sequence[tuple[str, str]],
        *,
        tunnels: bool = False,
    ) -> Response:
        """Pass an upgrade on to the kubelet of the pod's node; `tunnels` says that SPDY may come in a WebSocket."""
        node = at(pod, "spec.nodeName")
        if not node:
            raise BadRequest(f"pod {pod['metadata']['name']} does not have a host assigned")
        kubelet = await self.find(node)
        request, address, target = state.request, kubelet.address, _target(path, pairs)
        if not upgrade_of(request.all_headers):
            raise BadRequest("Upgrade request required")
        protocols = spdy_tunnel(request) if tunnels and _TUNNELS not in kubelet.features else []
        try:
            if protocols:
                return await self._tunneled(state, address, target, protocols)
            headers = request_headers_without_user(request, request.path, address.text)
            answer = await ask_backend(self.pool, address, state, target, address.text, headers)
        except HttpError as error:
            raise StatusError(f"error dialing backend: {error}") from None
        except ValueError as error:
            raise BadRequest(str(error)) from None
        return answer if isinstance(answer, Response) else passed_back(answer, address.text)

    async def _tunneled(self, state: RequestState, address: Address, target: str, protocols: Sequence[str]) -> Response:
        """A WebSocket whose messages are the bytes of a SPDY connection to the kubelet."""
        from oarlock.endpoints.channels.spdy_tunnel import in_messages  # noqa: PLC0415 (takes a tenth of a server's start)

        accepted = spdy_tunnel_upgrade(state.request, protocols[0])
        offered = [("x-stream-protocol-version", protocol) for protocol in protocols]
        headers = (("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), *offered)
        asked = HttpRequest("POST", address.text, target, headers, upgrade=True)
        answer = await send_to_backend(self.pool, address, state, asked)
        if isinstance(answer, Response):
            return answer
        if answer.status != 101:
            return passed_back(answer, address.text)
        chosen = answer.header("x-stream-protocol-version")
        if chosen in protocols:
            accepted = spdy_tunnel_upgrade(state.request, chosen)
        return switched(answer, accepted, in_messages)


_PASSED_OF_LOG: Final = frozenset(
    ("follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "tailLines", "timestamps")
)


def _wrong_log_options(given: Mapping[str, Any]) -> Iterator[FieldError]:
    lines, size, seconds, time = map(given.get, ("tailLines", "limitBytes", "sinceSeconds", "sinceTime"))
    if time:
        try:
            parse_rfc3339(time)
        except TimeError as error:
            raise BadRequest(str(error)) from None
    if lines is not None and lines < 0:
        yield Invalid("tailLines", lines, "must be greater than or equal to 0")
    if size is not None and size < 1:
        yield Invalid("limitBytes", size, "must be greater than 0")
    if seconds is not None and time:
        yield Forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified")
    elif seconds is not None and seconds < 1:
        yield Invalid("sinceSeconds", seconds, "must be greater than 0")
    if given.get("stream") is not None:
        yield Forbidden("stream", "may not be specified")


def _in_container(what: str, pod: Tree, given: Mapping[str, Any]) -> Sequence[str]:
    return what, pod["metadata"]["namespace"], pod["metadata"]["name"], _container(pod, given)


def _container(pod: Tree, given: Mapping[str, Any]) -> str:
    """The container that is meant, which may be left out where there is one. Raises BadRequest."""
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    asked: str = given.get("container") or ""
    lists = ("initContainers", "containers", "ephemeralContainers")
    known = [container["name"] for field in lists for container in spec.get(field) or ()]
    if asked:
        if asked not in known:
            raise BadRequest(f"container {asked} is not valid for pod {name}")
        return asked
    containers: list[Tree] = spec.get("containers") or []
    if len(containers) == 1:
        return str(containers[0]["name"])
    choice = f", choose one of: [{' '.join(known)}]" if containers else ""
    raise BadRequest(f"a container name must be specified for pod {name}{choice}")


def _streams(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((shown, "1") for name, shown in _STREAMS.items() if given.get(name))


def _target(path: Iterable[str], pairs: Sequence[tuple[str, str]]) -> str:
    query = query_of(pairs)
    written = "/" + "/".join(quote(part, safe="") for part in path)
    return f"{written}?{query}" if query else written


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _refusal(answer: HttpResponse) -> StatusError:
    """What a kubelet answered instead of a log."""
    text = (await answer.read(_MOST_ERROR_BYTES))[:_MOST_ERROR_BYTES].decode(errors="replace")
    match answer.status:
        case 400:
            return BadRequest(text)
        case 404:
            return NoSuchPath()
        case 500:
            return InternalError(text)
    return StatusError(f"the kubelet answered with {answer.status}: {text}")
