"""A process that shares a SQLite store with others. The tests start it as a script and end it by its pid.

history PATH SEED LIVES MILLISECONDS   open, write and read at random, close; so many times. Prints what it did.
                                       The first life lasts until it is told on standard input to go on, and begins
                                       with what is known: whoever is alone says so.
writers PATH NAME CLIENTS              create and update until killed. Prints each write after it was acknowledged.
commands PATH                          does what it is told on standard input, one JSON value per line.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from oarlock.storage.backend import OutcomeUnknown, StorageError
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.contracts.support import END, START, Recorder, fold

FIRST_LIFE = 50
"""What each client does at least in its first life."""


class RealClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def say(value: Any) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


async def history(path: str, seed: int, lives: int, milliseconds: int) -> None:
    dice = random.Random(seed)
    told = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    for life in range(lives):
        backend = SqliteBackend(path, RealClock(), join_timeout_s=30)
        await backend.start()
        page = await backend.list(START, END)
        watch = Recorder(page.rev)
        await backend.watch(START, END, after=page.rev, deliver=watch.deliver, failed=watch.failed)
        until = time.monotonic() + dice.random() * milliseconds / 1000
        over = partial(told_to_go_on, told) if life == 0 else partial(passed, until)
        clients = (client(backend, random.Random(dice.random()), over) for _ in range(3))
        if life == 0:
            begun = time.monotonic()
            rev = backend.known_rev()
            say([] if rev is None else [("known", begun, time.monotonic(), rev)])
        for done in await asyncio.gather(*clients):
            say(done)
        await backend.request_progress()
        assert watch.error is None, watch.error
        state = fold({kv.key: (kv.value, kv.mod_rev) for kv in page.kvs}, watch.events)
        final = await backend.list(START, END, rev=watch.rev)
        assert state == {kv.key: (kv.value, kv.mod_rev) for kv in final.kvs}, (
            "list and events differ from the later list"
        )
        await backend.close()
        await asyncio.sleep(dice.random() * milliseconds / 4000)


def passed(until: float, done: int) -> bool:
    return time.monotonic() >= until


def told_to_go_on(told: asyncio.Future[str], done: int) -> bool:
    return told.done() and done >= FIRST_LIFE


async def client(
    backend: SqliteBackend, dice: random.Random, over: Callable[[int], bool]
) -> list[tuple[str, float, float, int]]:
    """(what, begun, ended, revision) of every write and read. The monotonic clock is the same in all processes."""
    done = []
    while not over(len(done)):
        await asyncio.sleep(dice.random() / 500)
        key = f"{START}{dice.randrange(10)}"
        begun = time.monotonic()
        what = dice.choice(["put", "put", "known", "busy", "current_rev_sync", "current", "get", "list", "count"])
        match what:
            case "busy":
                # While the loop hears nobody, a newcomer must not write: what is known here would be stale.
                time.sleep(dice.random() / 50)  # noqa: ASYNC251
                begun = time.monotonic()
                rev = backend.known_rev()
            case "put":
                kv, _ = await backend.get(key)
                begun = time.monotonic()
                result = await backend.put(key, b"%d" % os.getpid(), expect=kv.mod_rev if kv else 0)
                rev = result.rev if result.ok else None
            case "known":
                rev = backend.known_rev()
            case "current_rev_sync":
                rev = backend.current_rev_sync()
            case "current":
                rev = await backend.current_rev()
            case "get":
                rev = (await backend.get(key))[1]
            case "list":
                rev = (await backend.list(START, END)).rev
            case _:
                rev = (await backend.count(START, END))[1]
        if rev is not None:
            done.append((what, begun, time.monotonic(), rev))
    return done


async def writers(path: str, name: str, clients: int) -> None:
    backend = SqliteBackend(path, RealClock(), join_timeout_s=30)
    await backend.start()

    async def write(number: int) -> None:
        index = 0
        while True:
            key = f"{START}{name}-{number}-{index}"
            rev = 0
            for value in ("first", "second"):
                result = await backend.put(key, value.encode(), expect=rev)
                assert result.ok, result
                rev = result.rev
                say([key, value, rev])
            index += 1

    await asyncio.gather(*(write(number) for number in range(clients)))


async def commands(path: str) -> None:
    backend = SqliteBackend(path, RealClock(), join_timeout_s=2)
    loop = asyncio.get_running_loop()
    watch = Recorder()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            match json.loads(line):
                case ["start"]:
                    await backend.start()
                    say(backend.known_rev())
                case ["put", key, expect]:
                    result = await backend.put(key, b"x" * 100, expect=expect)
                    say([result.ok, result.rev])
                case ["fill", count, size]:
                    for _ in range(count):
                        key = f"{START}fill-{os.getpid()}-{time.monotonic_ns()}"
                        rev = (await backend.put(key, b"x" * size, expect=0)).rev
                    say(rev)
                case ["known"]:
                    say(backend.known_rev())
                case ["current"]:
                    say(await backend.current_rev())
                case ["get", key]:
                    kv, rev = await backend.get(key)
                    say([kv.mod_rev if kv else None, rev])
                case ["count"]:
                    say((await backend.count(START, END))[0])
                case ["watch", after]:
                    await backend.watch(START, END, after=after, deliver=watch.deliver, failed=watch.failed)
                    say(None)
                case ["events"]:
                    await backend.request_progress()
                    say([event.rev for event in watch.events])
                case ["compact", rev]:
                    await backend.compact(rev)
                    say(await backend.compact_rev())
                case ["check"]:
                    say(await backend.check())
                case ["file size limit", size]:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
                    say(None)
                case ["close"]:
                    await backend.close()
                    say(None)
                    return
        except OutcomeUnknown as error:
            say({"unknown": str(error)})
        except StorageError as error:
            say({type(error).__name__: str(error)})


def main(arguments: list[str]) -> None:
    match arguments:
        case ["history", path, seed, lives, milliseconds]:
            asyncio.run(history(path, int(seed), int(lives), int(milliseconds)))
        case ["writers", path, name, clients]:
            asyncio.run(writers(path, name, int(clients)))
        case ["commands", path]:
            asyncio.run(commands(path))
        case _:
            sys.exit(f"not a command: {arguments}")


if __name__ == "__main__":
    main(sys.argv[1:])
