"""Times and durations as Kubernetes and Go write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import times
from oarlock.meta.times import TimeError

Vectors = Callable[[str], Any]
MOMENT = 1795176669.0  # 2026-11-20T12:11:09Z


def _seconds(case: dict[str, Any]) -> float:
    nanoseconds = case.get("d", 0)
    return int(nanoseconds["$int"] if isinstance(nanoseconds, dict) else nanoseconds) / 1e9


def test_ages(shared_vectors: Vectors) -> None:
    groups = shared_vectors("misc.json")["groups"]
    for group in ("TestHumanDuration", "TestHumanDurationBoundaries"):
        for case in groups[f"duration.{group}.tests"]:
            assert times.human_duration(_seconds(case)) == case["want"], case


def test_writing_times() -> None:
    assert times.rfc3339(MOMENT + 0.999) == "2026-11-20T12:11:09Z"
    assert times.rfc3339(0) == "1970-01-01T00:00:00Z"
    assert times.rfc3339(-0.5) == "1969-12-31T23:59:59Z"
    assert times.rfc3339_micro(MOMENT + 0.25) == "2026-11-20T12:11:09.250000Z"
    assert times.rfc3339(times.parse_rfc3339("0900-01-01T00:00:00Z")) == "0900-01-01T00:00:00Z"
    for hostile in (1e20, -1e20):
        with pytest.raises(ValueError, match="outside of the years"):
            times.rfc3339(hostile)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20T12:11:09Z", MOMENT),
        ("2026-11-20T13:11:09+01:00", MOMENT),
        ("2026-11-20T06:41:09-05:30", MOMENT),
        ("2026-11-20T12:11:09.5Z", MOMENT + 0.5),
        ("2026-11-20T12:11:09,5Z", MOMENT + 0.5),
        ("2024-02-29T00:00:00Z", 1709164800.0),
        ("0000-01-01T00:00:00Z", -62167219200.0),
        ("9999-12-31T23:59:59Z", 253402300799.0),
    ],
)
def test_reading_times(text: str, moment: float) -> None:
    assert times.parse_rfc3339(text) == moment


LAYOUT = '"2006-01-02T15:04:05Z07:00"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", f'parsing time "abc" as {LAYOUT}: cannot parse "abc" as "2006"'),
        ("", f'parsing time "" as {LAYOUT}: cannot parse "" as "2006"'),
        ("2026-11-20", f'parsing time "2026-11-20" as {LAYOUT}: cannot parse "" as "T"'),
        ("2026-13-01T00:00:00Z", 'parsing time "2026-13-01T00:00:00Z": month out of range'),
        ("2026-02-29T00:00:00Z", 'parsing time "2026-02-29T00:00:00Z": day out of range'),
        ("2026-02-01T24:00:00Z", 'parsing time "2026-02-01T24:00:00Z": hour out of range'),
        ("2026-02-01T00:00:00Zx", 'parsing time "2026-02-01T00:00:00Zx": extra text: "x"'),
        ("2026-02-01T00:00:00", f'parsing time "2026-02-01T00:00:00" as {LAYOUT}: cannot parse "" as "Z07:00"'),
        ("2026-02-01 00:00:00Z", f'parsing time "2026-02-01 00:00:00Z" as {LAYOUT}: cannot parse " 00:00:00Z" as "T"'),
    ],
)
def test_texts_that_are_no_times(text: str, message: str) -> None:
    with pytest.raises(TimeError) as caught:
        times.parse_rfc3339(text)
    assert str(caught.value) == message


def test_micro_times_have_exactly_six_digits() -> None:
    assert times.parse_rfc3339_micro("2026-11-20T12:11:09.250000Z") == MOMENT + 0.25
    for text in ("2026-11-20T12:11:09Z", "2026-11-20T12:11:09.25Z", "2026-11-20T12:11:09.2500000Z"):
        with pytest.raises(TimeError):
            times.parse_rfc3339_micro(text)


@given(st.integers(-60_000_000_000, 250_000_000_000))
def test_what_is_written_is_read_again(seconds: int) -> None:
    assert times.parse_rfc3339(times.rfc3339(seconds)) == seconds
    assert times.parse_rfc3339_micro(times.rfc3339_micro(seconds)) == seconds


@given(st.text(alphabet="0123456789-T:Z.,+ ٣", max_size=30))
def test_any_text_is_a_time_or_an_error(text: str) -> None:
    for read in (times.parse_rfc3339, times.parse_rfc3339_micro):
        try:
            read(text)
        except TimeError:
            pass


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("1h2m0s", 3720),
        ("1.5s", 1.5),
        ("-300ms", -0.3),
        ("+5s", 5),
        (".5m", 30),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("34s", 34),
        ("2562047h47m16.854775807s", 9223372036.854775807),
    ],
)
def test_reading_durations(text: str, seconds: float) -> None:
    assert times.parse_go_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("x", 'time: invalid duration "x"'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("3", 'time: missing unit in duration "3"'),
        ("3d", 'time: unknown unit "d" in duration "3d"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_texts_that_are_no_durations(text: str, message: str) -> None:
    with pytest.raises(TimeError) as caught:
        times.parse_go_duration(text)
    assert str(caught.value) == message


@given(st.text(alphabet="0123456789.hmsuµn+-d", max_size=12))
def test_any_text_is_a_duration_or_an_error(text: str) -> None:
    try:
        times.parse_go_duration(text)
    except TimeError:
        pass


def test_hostile_durations_are_refused() -> None:
    for text in ("1h" * 100_000, "9" * 100_000 + "s", "1" + "µ" * 100_000):
        with pytest.raises(TimeError):
            times.parse_go_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0µs"),
        (0.000512, "512µs"),
        (0.5123, "512.3ms"),
        (1.0, "1s"),
        (62.5, "1m2.5s"),
        (60.0, "1m0s"),
        (3600.25, "1h0m0.25s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(seconds: float, text: str) -> None:
    assert times.go_duration(seconds) == text
    assert times.parse_go_duration(text) == pytest.approx(seconds)
