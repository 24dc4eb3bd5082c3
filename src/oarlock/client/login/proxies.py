"""Which proxy leads to a server, as the environment says: ``HTTPS_PROXY``, ``HTTP_PROXY``, ``NO_PROXY``.

Source: Go's ``net/http/httpproxy``, which kubectl follows.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from oarlock.net.url import parse_url

__all__ = ["environment_proxy"]


def environment_proxy(server: str, environment: Mapping[str, str]) -> str:
    """The proxy's URL, or nothing. This machine itself is never asked through a proxy. Raises `UrlError`."""
    url = parse_url(server)
    host = url.hostname.lower().rstrip(".")
    name = f"{url.scheme}_proxy"
    proxy = environment.get(name) or environment.get(name.upper()) or ""
    if not proxy or host == "localhost" or _is_loopback(host):
        return ""
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if any(
        _excepts(exception.strip().lower(), host, url.port) for exception in exceptions.split(",") if exception.strip()
    ):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _excepts(rule: str, host: str, port: int) -> bool:
    """Whether one entry of ``NO_PROXY`` is about `host`: ``*``, a network, an address, a domain; maybe with a port."""
    if rule == "*":
        return True
    address = _address(host)
    try:
        network = ipaddress.ip_network(rule, strict=False)
    except ValueError:
        pass
    else:
        return address is not None and address in network
    name, separator, number = rule.rpartition(":")
    if separator and number.isdigit():
        if int(number) != port:
            return False
        rule = name.strip("[]")
    if address is not None:
        return _address(rule) == address
    rule = rule.removeprefix("*")
    return host.endswith(rule) if rule.startswith(".") else host == rule or host.endswith(f".{rule}")
