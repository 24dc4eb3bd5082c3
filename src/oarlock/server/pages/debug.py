"""Pages for those who look into a running server: the options in force, what runs, stacks, a profile.

Off by default; with their options for whom authorization allows the path. No page shows a secret.
Source: k8s.io/apiserver ``server/routes`` profiling, ``component-base/zpages``. See also: `health`, `metrics.page`.
"""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
import sys
import threading
import traceback
from collections.abc import Callable, Sequence

from oarlock.codec import json as json_codec
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import JSON, parse_accept
from oarlock.meta.context import Clock
from oarlock.meta.errors import BadRequest, TooManyRequests
from oarlock.meta.options_parse import parse_query
from oarlock.meta.times import rfc3339
from oarlock.server.about import VERSION
from oarlock.server.config import ServerConfig
from oarlock.server.filters.filter import plain
from oarlock.server.options.option import options_of

PAGES = ("/configz", "/flagz", "/statusz")
PROFILES = ("/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/profile")
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only.\n\n"
)
_INDEX = "/debug/pprof/\n\ngoroutine: stacks of threads and tasks\nprofile?seconds=5: where time is spent\n"
_GROUP, _VERSIONS = "config.k8s.io", ("v1alpha1", "v1beta1")
PROFILE_S = 5
LONGEST_PROFILE_S = 30
_STACKS = 1000
"""So many tasks are shown at most."""


class DebugPages:
    """Answers the pages that `config` asks for. `uptime_s` is how long the server has run; `paths` are its others."""

    def __init__(
        self, name: str, config: ServerConfig, clock: Clock, uptime_s: Callable[[], float], paths: Sequence[str]
    ) -> None:
        self._now = clock.now
        self.paths = (*(PAGES if config.debug_pages else ()), *(PROFILES if config.profiling else ()))
        self._name = name
        self._config = config
        self._uptime_s = uptime_s
        self._other_paths = paths
        self._profiling = False

    async def respond(self, state: RequestState) -> Response | None:
        """The answer, or None for a path that isn't in `paths`. Raises BadRequest, TooManyRequests."""
        path = state.request.path
        if path not in self.paths:
            return None
        match path:
            case "/configz":
                return Response(200, [("content-type", "application/json")], self._options_as_json())
            case "/flagz":
                version = _structured(state, "Flagz")
                return (
                    plain(200, self._flags()) if not version else self._document("Flagz", version, flags=self._by_flag)
                )
            case "/statusz":
                version = _structured(state, "Statusz")
                return self._statusz(version) if version else plain(200, self._status())
            case "/debug/pprof/profile":
                return plain(200, await self._profile(_seconds(state.request.query)))
            case "/debug/pprof/goroutine":
                return plain(200, _stacks())
        return plain(200, _INDEX)

    def _options_as_json(self) -> bytes:
        shown = {
            option.file_field: None
            if (value := getattr(self._config, option.field)) is None
            else option.type.tree(value)
            for option in options_of(type(self._config))
        }
        return json_codec.encode({self._name: shown}) + b"\n"

    @property
    def _by_flag(self) -> dict[str, str]:
        shown = {
            option.flag: option.text(getattr(self._config, option.field)) for option in options_of(type(self._config))
        }
        return dict(sorted(shown.items()))

    def _flags(self) -> str:
        return f"{self._name} flagz\n{_WARNING}" + "".join(f"{flag}={text}\n" for flag, text in self._by_flag.items())

    def _statusz(self, version: str) -> Response:
        up_s = self._uptime_s()
        facts = {
            "startTime": rfc3339(self._now() - up_s),
            "uptimeSeconds": int(up_s),
            "pythonVersion": sys.version.partition(" ")[0],
            "binaryVersion": VERSION,
            "paths": [*self._other_paths, *self.paths],
        }
        return self._document("Statusz", version, **facts)

    def _document(self, kind: str, version: str, **fields: object) -> Response:
        tree = {"kind": kind, "apiVersion": f"{_GROUP}/{version}", "metadata": {"name": self._name}, **fields}
        media = f"application/json;as={kind};v={version};g={_GROUP}"
        return Response(200, [("content-type", media)], json_codec.encode(tree) + b"\n")

    def _status(self) -> str:
        hours, rest = divmod(int(self._uptime_s()), 3600)
        up = f"{hours} hr {rest // 60:02d} min {rest % 60:02d} sec"
        python = sys.version.partition(" ")[0]
        facts = f"Up: {up}\nPython version: {python}\nBinary version: {VERSION}\n"
        return f"{self._name} statusz\n{_WARNING}{facts}\nPaths: {' '.join((*self._other_paths, *self.paths))}\n"

    async def _profile(self, seconds: int) -> str:
        """Where the event loop spends its time; it is about twice as slow meanwhile."""
        if self._profiling:
            raise TooManyRequests("a profile is being made: try again later", LONGEST_PROFILE_S)
        self._profiling = True
        profile = cProfile.Profile()
        try:
            profile.enable()
            await asyncio.sleep(seconds)
        finally:
            profile.disable()
            self._profiling = False
        text = io.StringIO()
        pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(100)
        return text.getvalue()


def _structured(state: RequestState, kind: str) -> str:
    """The version in which a client wants a page as an object; ``""`` if it wants the text."""
    for clause in parse_accept(state.request.headers.get("accept", "")):
        params = dict(clause.params)
        version = params.get("v", "")
        if (params.get("as"), params.get("g")) == (kind, _GROUP) and clause.matches(JSON) and version in _VERSIONS:
            return version
        if not params and clause.matches("text/plain"):
            break
    return ""


def _seconds(query: str) -> int:
    text = next((value for key, value in parse_query(query) if key == "seconds"), str(PROFILE_S))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= LONGEST_PROFILE_S):
        raise BadRequest(f"seconds={text[:20]}: write a number from 1 to {LONGEST_PROFILE_S}")
    return int(text)


def _stacks() -> str:
    """The stacks of all threads, and of the tasks of this loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    for task in list(asyncio.all_tasks())[:_STACKS]:
        text = io.StringIO()
        task.print_stack(limit=20, file=text)
        parts.append(text.getvalue())
    return "\n".join(parts)
