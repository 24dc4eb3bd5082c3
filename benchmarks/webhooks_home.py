"""What does a review cost that `oarlock webhooks` answers? Server CPU, 16 in flight, over TLS; one process.

An object of a kilobyte with 20 items in a list. The hooks are timed alone too, in this process, as our own server calls
them: what is left is the review's own. With two versions, of which the hooks see the other one; and a conversion of one
object, and of 500.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from oarlock import Context, FieldError, Invalid, Model, Resource, Spoke, StoredCollection
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.server.serving.certificates.serving_pair import ensure_certificates
from support.load import Load, median_of
from support.wardle import TOKEN, Server, free_port, serving_flags, stopped_at_the_end, wait_until_ready

GROUP = "bench.example.com"
ITEMS = 20
CALLS = 5_000


class Part(Model):
    name: str
    count: int = 1


class OrderSpec(Model):
    customer: str
    parts: list[Part] = []  # noqa: RUF012 (a default, made anew for each object)
    total: int = 0


class OrderV1(Resource, group=GROUP, version="v1", kind="Order"):
    """An order."""

    spec: OrderSpec


class OldOrderSpec(Model):
    client: str
    parts: list[Part] = []  # noqa: RUF012 (a default, made anew for each object)
    total: int = 0


class OrderV1alpha1(Spoke[OrderV1], version="v1alpha1"):
    """An order, before customers were called so."""

    spec: OldOrderSpec

    def to_hub(self) -> OrderV1:
        spec = self.spec
        return OrderV1(metadata=self.metadata, spec=OrderSpec(customer=spec.client, parts=spec.parts, total=spec.total))

    @classmethod
    def from_hub(cls, hub: OrderV1) -> Self:
        spec = hub.spec
        return cls(metadata=hub.metadata, spec=OldOrderSpec(client=spec.customer, parts=spec.parts, total=spec.total))


class Orders(StoredCollection[OrderV1]):
    def prepare(self, new: OrderV1, old: OrderV1 | None, ctx: Context) -> None:
        new.spec.total = sum(part.count for part in new.spec.parts)

    def validate(self, new: OrderV1, old: OrderV1 | None, ctx: Context) -> Iterator[FieldError]:
        for at, part in enumerate(new.spec.parts):
            if part.count > 100:
                yield Invalid(f"spec.parts[{at}].count", part.count, "more than there are")


def order(version: str = "v1", number: int = 0) -> dict[str, Any]:
    who = {"client" if version == "v1alpha1" else "customer": "somebody"}
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Order",
        "metadata": {
            "name": f"order-{number}",
            "namespace": "default",
            "uid": "0e1f9f3c-4b7e-4c43-8d4e-6a6dc3b0b0a1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "bench", "tier": "backend"},
        },
        "spec": {**who, "parts": [{"name": f"part-{n}", "count": n} for n in range(ITEMS)], "total": 0},
    }


def review(version: str = "v1") -> bytes:
    place = {"group": GROUP, "version": version}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {**place, "kind": "Order"},
        "resource": {**place, "resource": "orders"},
        "name": "order-0",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": order(version),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def conversion(count: int) -> bytes:
    objects = [order("v1", number) for number in range(count)]
    request = {"uid": "705ab4f5", "desiredAPIVersion": f"{GROUP}/v1alpha1", "objects": objects}
    return json.dumps(
        {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": request}
    ).encode()


@contextmanager
def webhooks() -> Iterator[Server]:
    """The webhooks of this file as a process of their own."""
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as temporary:
        folder, port, started = Path(temporary), free_port(), time.monotonic()
        (folder / "tokens.csv").write_text(f'{TOKEN},bench,bench,"system:masters"\n')
        ensure_certificates(folder / "pki", (socket.gethostname(),), time.time())
        command = [sys.executable, "-m", "oarlock", "webhooks", __file__, *serving_flags(folder, port)]
        with open(folder / "server.log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        with stopped_at_the_end(process):
            wait_until_ready(process, port, folder)
            yield Server(process.pid, port, folder, time.monotonic() - started)


def of_hooks() -> tuple[float, float]:
    """µs of `prepare` and of `validate` as servers call them: with the objects made for them and taken back."""
    [served] = served_from([Orders, OrderV1alpha1])
    prepare, validate, ctx = served.hooks.prepare, served.hooks.validate, Context.for_test()
    assert prepare is not None
    assert validate is not None
    tree = order()
    begin = time.process_time()
    for _ in range(CALLS):
        prepare(tree, None, ctx)
    between = time.process_time()
    for _ in range(CALLS):
        validate(tree, None, ctx)
    end = time.process_time()
    return (between - begin) / CALLS * 1e6, (end - between) / CALLS * 1e6


def main() -> None:
    prepare_us, validate_us = of_hooks()
    print(f"alone: prepare {prepare_us:.1f} µs, validate {validate_us:.1f} µs")
    with webhooks() as server:
        for path, version, own_us in (
            ("/mutate", "v1", prepare_us),
            ("/validate", "v1", validate_us),
            ("/mutate", "v1alpha1", prepare_us),
            ("/validate", "v1alpha1", validate_us),
        ):
            body = review(version)
            for http2 in (True, False):
                load = Load(http2=http2)
                figure = median_of(server, lambda n: ("POST", path, body, "application/json"), load)  # noqa: B023
                protocol = "HTTP/2" if http2 else "HTTP/1.1"
                print(
                    figure.line(f"{path} of {version}, {protocol}") + f"; {figure.cpu_us - own_us:.0f} beyond the hook"
                )
        for count in (1, 500):
            body = conversion(count)
            load = Load(http2=count == 1, in_flight=16 if count == 1 else 2)
            figure = median_of(server, lambda n: ("POST", "/convert", body, "application/json"), load)  # noqa: B023
            print(figure.line(f"/convert of {count}"))


if __name__ == "__main__":
    main()
