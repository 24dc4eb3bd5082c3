"""What a metric of several processes is, and what a process that has ended leaves of it."""

from __future__ import annotations

import pytest

from oarlock.codec.prometheus_text import metrics_text
from oarlock.meta.metrics import Across, Histogram, MetricFamily, ended_families, histogram_of, summed_families
from oarlock.server.files.reloaded import ReloadCounts


@pytest.mark.parametrize(
    ("across", "summed", "ended"),
    [("running", 5.0, None), ("sum", 5.0, 0), ("most", 3.0, 0), ("latest", 3.0, 3.0), ("own", 2.0, None)],
)
def test_a_gauge_is_what_it_says(across: Across, summed: float, ended: float | None) -> None:
    own, other = (MetricFamily("depth", "Depth.", {("a",): depth}, ("at",), across=across) for depth in (2.0, 3.0))
    assert [family.samples for family in summed_families((own, other))] == [{("a",): summed}]
    left = [family.samples for family in ended_families((other,))]
    assert left == ([] if ended is None else [{("a",): ended}])


def test_histograms_are_added_bucket_by_bucket_and_outlive_their_process() -> None:
    times = Histogram((0.5, 2.0))
    for seconds in (0.5, 1.0, 9.0):
        times.add(seconds)
    family = histogram_of("took_seconds", "How long.", ("of",), {("a",): times}, (0.5, 2.0))
    times.add(1.0)
    [total] = summed_families((family, *ended_families((family,))))
    lines = metrics_text((total,)).decode().splitlines()
    assert lines[2:] == [
        'took_seconds_bucket{le="0.5",of="a"} 2.0',
        'took_seconds_bucket{le="2",of="a"} 4.0',
        'took_seconds_bucket{le="+Inf",of="a"} 6.0',
        'took_seconds_count{of="a"} 6.0',
        'took_seconds_sum{of="a"} 21.0',
    ]


def test_objects_without_a_key_are_those_that_the_process_knows_that_is_asked() -> None:
    every = [ReloadCounts(digest="sha256:a", without_key=4), ReloadCounts(digest="sha256:b", without_key=4)]
    total = {
        family.name: family.samples
        for family in summed_families(family for counts in every for family in counts.key_families())
    }
    assert total["oarlock_encryption_objects_without_key"] == {(): 4}
    assert total["apiserver_encryption_config_controller_last_config_info"] == {("sha256:a",): 1}
