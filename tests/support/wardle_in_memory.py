"""wardle on a store in memory that outlives its servers: this process is to it what a database is to other stores.

    python wardle_in_memory.py FOLDER [options of oarlock serve]

When a server has ended and FOLDER has a file ``compact``, the store is compacted at the revision in it, and the next
server starts.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.wardle.server import server as wardle

from oarlock.client.clock import SystemClock
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.contracts.network import NetworkBackend


def main() -> None:
    order = Path(sys.argv[1]) / "compact"
    memory = MemoryBackend(SystemClock())
    while True:
        wardle.storage = NetworkBackend(memory)
        try:
            wardle.main(sys.argv[2:])
        except SystemExit as end:
            if end.code or not order.exists():
                raise
        asyncio.run(memory.compact(int(order.read_text())))
        order.unlink()


if __name__ == "__main__":
    main()
