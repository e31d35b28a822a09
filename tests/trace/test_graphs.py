"""Which regions ran as a CUDA graph, in a trace."""

from __future__ import annotations

import weakref

from pygraph_rt.reports.report import REGIONS, Region
from pygraph_rt.trace import graphs


class Counters:
    """What counts a region's calls."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.served = 0
        region.refresher = weakref.WeakMethod(self.refresh)

    def refresh(self) -> None:
        self.region.served = self.served


def test_calls_are_counted_that_the_region_has_not_reported_yet() -> None:
    region = Region("graph 0/0", "f at m.py:1")
    counters = Counters(region)
    REGIONS().add(region)
    counters.served = 2
    before = graphs.served_now()
    counters.served = 5
    found = [e for e in graphs.decisions(before, 1.0) if e.details["report"]["name"] == region.name]
    assert [(event.kind, event.count) for event in found] == [("graph_served", 3)]


def test_a_region_whose_counters_are_gone_keeps_what_it_reported() -> None:
    region = Region("graph 0/1")
    Counters(region).refresh()
    region.refresh()
    assert region.served == 0
