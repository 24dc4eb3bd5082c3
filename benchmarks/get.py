"""What does a GET cost? Server CPU per request, 16 in flight: HTTP/1.1 and HTTP/2, from the cache and linearizable."""

from __future__ import annotations

from support.load import Load, fill, median_of
from support.wardle import FLUNDERS, flunder, wardle


def main() -> None:
    with wardle() as server:
        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"get-{n}", n), "application/json"), 100)
        for query, name in (("", "linearizable"), ("?resourceVersion=0", "resourceVersion=0")):
            for http2 in (False, True):

                def make(n: int, query: str = query) -> tuple[str, str, bytes, str]:
                    return "GET", f"{FLUNDERS}/get-{n % 100}{query}", b"", ""

                figure = median_of(server, make, Load(http2=http2))
                print(figure.line(f"GET, {name}, HTTP/{'2' if http2 else '1.1'}, 16 in flight"))


def beside_another() -> None:
    """The same with a second process on the store: who reads has to ask it what the newest revision is."""
    with wardle() as server, wardle(folder=server.folder):
        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"get-{n}", n), "application/json"), 100)
        figure = median_of(server, lambda n: ("GET", f"{FLUNDERS}/get-{n % 100}", b"", ""), Load())
        print(figure.line("GET, linearizable, a second process on the store, HTTP/1.1, 16 in flight"))


if __name__ == "__main__":
    main()
    beside_another()
