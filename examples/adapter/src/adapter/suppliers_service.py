"""Somebody else's REST service: suppliers, as JSON over HTTP. It knows nothing of Kubernetes.

    GET  /suppliers?after=ID&limit=N   {"items": […]}, in the order of ids
    GET  /suppliers/ID                 a supplier, or 404
    PUT  /suppliers/ID                 creates it with If-None-Match: *, replaces it with If-Match: REVISION; else 412

It has no way to delete one, and tells nobody of changes.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Document = dict[str, Any]
SEED: list[Document] = [
    {"id": "acme", "city": "Basel", "preferred": True, "revision": 1},
    {"id": "bolts-and-sons", "city": "Leeds", "preferred": False, "revision": 1},
]


class SuppliersService:
    """The service on a port of 127.0.0.1, 0 for a free one. It serves in a thread of its own from `start` to `stop`."""

    def __init__(self, port: int = 0) -> None:
        self.kept = {document["id"]: dict(document) for document in SEED}
        self.lock = threading.Lock()
        self._port = port
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None, "it isn't started"
        return f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        service = self

        class Handler(_Handler):
            suppliers = service

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _Handler(BaseHTTPRequestHandler):
    suppliers: SuppliersService

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        name, kept = url.path.removeprefix("/suppliers").strip("/"), self.suppliers.kept
        if name:
            self._answer(200 if name in kept else 404, kept.get(name, {}))
            return
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        found = [kept[name] for name in sorted(kept) if name > query.get("after", "")]
        self._answer(200, {"items": found[: int(query.get("limit", 100))]})

    def do_PUT(self) -> None:
        name = self.path.removeprefix("/suppliers/")
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.suppliers.lock:
            revision = self.suppliers.kept.get(name, {}).get("revision", 0)
            wanted = "0" if self.headers["If-None-Match"] == "*" else self.headers["If-Match"]
            if wanted != str(revision):
                self._answer(412, {})
                return
            self.suppliers.kept[name] = {**sent, "id": name, "revision": revision + 1}
            self._answer(200, self.suppliers.kept[name])

    def log_message(self, format: str, *args: Any) -> None:
        """The server before it logs its requests."""

    def _answer(self, status: int, document: Document) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
