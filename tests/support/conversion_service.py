"""A conversion webhook over HTTP or TLS, as honest as it is told to be: ``hostPort`` in v2 is host and port in v1."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any

Tree = dict[str, Any]

__all__ = ["ConversionService", "links", "renamed"]

GROUP = "convert.example.com"


def renamed(review: Tree) -> Tree:
    """The answer of an honest webhook."""
    asked = review["request"]
    for tree in asked["objects"]:
        spec = tree.get("spec") or {}
        if asked["desiredAPIVersion"].endswith("/v2"):
            spec["hostPort"] = f"{spec.pop('host', '')}:{spec.pop('port', '')}"
        else:
            spec["host"], _, spec["port"] = spec.pop("hostPort", "").partition(":")
        tree["apiVersion"] = asked["desiredAPIVersion"]
    response = {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": asked["objects"]}
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


class ConversionService:
    """Serves on a free port. `answer` makes the body of an answer; `open` cleared, nothing comes back.

    With `breaks_off` it closes the connection instead. What it was sent is in `heads` and `reviews`.
    """

    def __init__(self) -> None:
        self.answer: Callable[[Tree], Any] = renamed
        self.status = "200 OK\r\ncontent-type: application/json"
        self.breaks_off = False
        self.open = asyncio.Event()
        self.open.set()
        self.arrived = asyncio.Event()
        self.heads: list[str] = []
        self.reviews: list[Tree] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any] | None] = set()

    async def start(self, tls: ssl.SSLContext | None = None) -> str:
        """Begin; returns the URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/convert"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            if task is not None:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = [line.partition(": ") for line in head.lower().split("\r\n")]
                size = next(int(value) for name, _, value in lines if name == "content-length")
                review = json.loads(await reader.readexactly(size))
                self.heads.append(head)
                self.reviews.append(json.loads(json.dumps(review)))
                self.arrived.set()
                await self.open.wait()
                if self.breaks_off:
                    break
                made = self.answer(review)
                body = made if isinstance(made, bytes) else json.dumps(made).encode()
                writer.write(f"HTTP/1.1 {self.status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        writer.close()


def links(client_config: Tree, *review_versions: str) -> Tree:
    """The definition of links, stored as v1 and converted by a webhook."""

    def version(name: str, **fields: Any) -> Tree:
        spec = {"type": "object", "properties": fields}
        schema = {"type": "object", "properties": {"spec": spec}}
        return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}

    text = {"type": "string"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"links.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "links", "kind": "Link", "singular": "link", "listKind": "LinkList"},
            "versions": [version("v1", host=text, port=text), version("v2", hostPort=text)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": client_config,
                    "conversionReviewVersions": list(review_versions or ("v1", "v1beta1")),
                },
            },
        },
    }
