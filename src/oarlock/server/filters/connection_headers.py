"""Headers about the connection: TLS from now on (HSTS), and now and then that it is to end (GOAWAY).

Source: k8s.io/apiserver ``server/filters`` hsts and goaway; RFC 6797.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.server.filters.filter import Finish

__all__ = ["go_away", "strict_transport_security"]


def strict_transport_security(directives: Sequence[str]) -> Finish:
    """Tell browsers to use TLS only; on every answer."""
    header = ("strict-transport-security", "; ".join(directives))

    def demand_tls(state: RequestState, response: Response) -> None:
        response.headers.append(header)

    return demand_tls


def go_away(chance: float, random: Callable[[], float]) -> Finish:
    """End connections of HTTP/2 with this chance at each request, so that long ones are spread over servers again.

    Requests in progress go on.
    """

    def now_and_then(state: RequestState, response: Response) -> None:
        if state.request.http2 and random() < chance:
            response.headers.append(("connection", "close"))

    return now_and_then
