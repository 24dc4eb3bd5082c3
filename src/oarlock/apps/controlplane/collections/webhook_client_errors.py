"""What is wrong with the ``clientConfig`` of a webhook, of admission or of conversion: its URL, its Service.

Source: k8s.io/apiserver ``util/webhook/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.net.url import UrlError, parse_url

_FORMAT = "desired format: https://host[/path]"


def webhook_url_errors(path: str, text: str) -> Iterator[FieldError]:
    """Every mistake in a webhook's URL, which is at `path`. A password in it isn't quoted."""
    try:
        url = parse_url(text)
    except UrlError as error:
        why = f"url must be a valid URL: {error if '@' not in text else error.reason}; {_FORMAT}"
        yield Required(path, why)
        return
    if not url.tls:
        yield Invalid(path, url.scheme, f"'https' is the only allowed URL scheme; {_FORMAT}")
    if not url.host:
        yield Invalid(path, url.host, f"host must be specified; {_FORMAT}")
    if url.user is not None:
        yield Invalid(path, url.user, "user information is not permitted in the URL")
    if url.fragment:
        yield Invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield Invalid(path, url.query, "query parameters are not permitted in the URL")


def webhook_service_errors(path: str, namespace: str, name: str, port: int, service_path: str) -> Iterator[FieldError]:
    """Every mistake in a webhook's reference to a Service, which is at `path`."""
    if not namespace:  # Kubernetes names the one field when the other is missing
        yield Required(f"{path}.name")
    if not name:
        yield Required(f"{path}.namespace")
    if not 1 <= port <= 65535:
        yield Invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    where = f"{path}.path"
    if not service_path or service_path == "/":
        return
    if service_path == "//":
        yield Invalid(where, service_path, "segment[0] may not be empty")
        return
    if not service_path.startswith("/"):
        yield Invalid(where, service_path, "must start with a '/'")
    for at, segment in enumerate(service_path[1:].removesuffix("/").split("/")):
        if not segment:
            yield Invalid(where, service_path, f"segment[{at}] may not be empty")
            continue
        for complaint in names.dns1123_subdomain(segment):
            yield Invalid(where, service_path, f"segment[{at}]: {complaint}")
