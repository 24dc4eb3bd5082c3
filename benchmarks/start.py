"""How long from the start of the process to /readyz, and how much memory with no, 10,000 and 100,000 objects?"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from support.load import fill
from support.wardle import FLUNDERS, flunder, wardle


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as folder:
        where = Path(folder)
        with wardle(folder=where):
            pass  # leaves the certificates behind
        times = []
        for _ in range(5):
            with wardle(folder=where) as server:
                times.append(server.ready_s * 1e3)
                idle = server.rss_mb()
        print(
            f"start to /readyz with certificates present: {statistics.median(times):,.0f} ms (best {min(times):,.0f})"
        )
        print(f"RSS idle: {idle:,.0f} MB")
        before = 0
        for count in (10_000, 100_000) if "--large" in sys.argv else (10_000,):
            with wardle(folder=where) as server:
                fill(
                    server,
                    lambda n: ("POST", FLUNDERS, flunder(f"object-{n:06d}", n), "application/json"),
                    count - before,
                    before,
                )
                filled = server.rss_mb()
            before = count
            with wardle(folder=where) as server:
                print(
                    f"RSS with {count:,} objects: {server.rss_mb():,.0f} MB after a restart, "
                    f"{filled:,.0f} MB where they were created; start to /readyz {server.ready_s * 1e3:,.0f} ms"
                )


if __name__ == "__main__":
    main()
