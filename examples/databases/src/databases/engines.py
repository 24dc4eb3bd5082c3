"""What runs databases: here a folder, with one file for each server of a database. Yours may be a cloud.

Knows nothing of Kubernetes. Whatever is asked for twice is done once, so that a controller may always ask.
"""

import asyncio
from pathlib import Path


class Engines:
    """Servers of databases, in `folder`. There is room for `capacity` of them."""

    def __init__(self, folder: str | Path, capacity: int = 10) -> None:
        self.capacity = capacity
        self._folder = Path(folder)

    async def run(self, database: str, servers: int) -> list[str]:
        """Let `database` have so many servers, or as many as there is room for; returns their addresses."""
        return await asyncio.to_thread(self._run, database, servers)

    async def drop(self, database: str) -> None:
        """Remove a database with all its servers."""
        await asyncio.to_thread(self._run, database, 0)

    def _run(self, database: str, servers: int) -> list[str]:
        self._folder.mkdir(parents=True, exist_ok=True)
        prefix = database.replace("/", ".")
        running = {file for file in self._folder.glob("*.db") if file.name.rsplit(".", 2)[0] == prefix}
        others = len(list(self._folder.glob("*.db"))) - len(running)
        wanted = [self._folder / f"{prefix}.{number}.db" for number in range(servers)]
        wanted = wanted[: max(0, self.capacity - others)]
        for file in running.difference(wanted):
            file.unlink()
        for file in wanted:
            file.touch()
        return [str(file) for file in wanted]
