"""An ``etcd`` for envtest, which insists on starting one: it answers ``/health``, and keeps nothing.

Run by the program that ``oarlock envtest`` writes; imports little, so that it is there at once.
"""

from __future__ import annotations

import http.server
import sys
from collections.abc import Sequence

from oarlock.net.url import parse_url

CLIENTS = "--listen-client-urls"
DEFAULT = "http://127.0.0.1:2379"
HELP = f"Usage: etcd [flags]\n\nAn etcd for envtest: it answers /health, and keeps nothing.\n\n  {CLIENTS} URL\n"


class _Health(http.server.BaseHTTPRequestHandler):
    timeout = 10.0

    def do_GET(self) -> None:
        healthy = self.path == "/health"
        body = b'{"health":"true"}' if healthy else b"there is no etcd here, only what envtest asks of one\n"
        self.send_response(200 if healthy else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the process is ended; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "--help" in words or "-h" in words:
        sys.stdout.write(HELP)
        return 0
    url = parse_url(_value(words).partition(",")[0])
    try:
        port = url.port if url.has_port else 2379
        server = http.server.ThreadingHTTPServer((url.hostname or "127.0.0.1", port), _Health)
    except OSError as error:
        sys.stderr.write(f"etcd: {url.host}: {error.strerror}\n")
        return 1
    with server:
        server.serve_forever()
    return 0


def _value(words: Sequence[str]) -> str:
    """The addresses to listen on; every other flag of etcd is for what isn't here."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == CLIENTS:
            return value if equals else "".join(words[at + 1 : at + 2])
    return DEFAULT
