"""How fast does one DELETE empty a collection? Objects per second, durably, while a probe shows how long others wait.

Prints one figure: objects deleted per second by one request, the best of three collections of 3,000.
"""

from __future__ import annotations

import http.client
import threading
import time

from support.load import fill
from support.wardle import FLUNDERS, TOKEN, Server, flunder, wardle

OBJECTS = 3000
ROUNDS = 3


class Probe(threading.Thread):
    """Asks for one object again and again: the longest answer tells for how long the loop was held."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.ended = threading.Event()
        self.longest_s = 0.0

    def run(self) -> None:
        connection = _connection(self.server)
        while not self.ended.is_set():
            start = time.perf_counter()
            _ask(connection, "GET", "/readyz")
            self.longest_s = max(self.longest_s, time.perf_counter() - start)
            self.ended.wait(0.002)


def _connection(server: Server) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection("localhost", server.port, context=server.tls("http/1.1"), timeout=120)


def _ask(connection: http.client.HTTPSConnection, method: str, path: str) -> int:
    connection.request(method, path, headers={"authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def main() -> None:
    best, longest_s = 0.0, 0.0
    with wardle() as server:
        for _ in range(ROUNDS):
            fill(server, lambda n: ("POST", FLUNDERS, flunder(f"o-{n:05d}", n), "application/json"), OBJECTS)
            probe = Probe(server)
            probe.start()
            start = time.perf_counter()
            status = _ask(_connection(server), "DELETE", FLUNDERS)
            rate = OBJECTS / (time.perf_counter() - start)
            probe.ended.set()
            probe.join()
            assert status == 200, status
            if rate > best:
                best, longest_s = rate, probe.longest_s
    print(f"DELETE of a collection: {best:,.0f} objects/s (a probe waited {longest_s * 1e3:.0f} ms at most)")


if __name__ == "__main__":
    main()
