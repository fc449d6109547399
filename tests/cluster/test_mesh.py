"""Rates of the mesh without progressive filling: the same floats."""

import pytest

from tests.cluster.test_fair import Plan, links, times
from varsim.cluster import maxmin
from varsim.cluster.maxmin import max_min_rates


def test_flows_that_meet_in_one_link_need_no_filling(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three racks of four send to a server whose port is slower than the racks' uplinks, and it
    # sends to them; but for one plan, where the first rack's uplink is what holds its flows up.
    filled: list[int] = []

    def counting(routes: maxmin.Indices, bandwidth: maxmin.Floats) -> maxmin.Floats:
        filled.append(routes.shape[1])
        return max_min_rates(routes, bandwidth)

    def tangle(mesh: maxmin.Mesh, *_: object) -> None:
        mesh._tangled = True

    def racks(uplink: float) -> list[Plan]:
        *ports, up, down = links(*[1.3e9] * 24, 1e9, 1e9)
        first, *uplinks = links(uplink, *[1.1e9] * 5)
        between = [first, *uplinks]
        plans: list[Plan] = []
        for one in range(12):
            start, size = 700_001 * (one * 5 % 12), 1e6 + one
            plans.append((start, (ports[one], between[one // 4], down), (size / 3, size)))
            route = (up, between[3 + one // 4], ports[12 + one])
            plans.append((start + 333, route, (size,)))
        return plans

    monkeypatch.setattr(maxmin, "max_min_rates", counting)
    for uplink, fills in ((1e9, False), (0.3e9, True)):
        seen = times(racks(uplink), hubs=False)
        assert bool(filled) == fills
        with monkeypatch.context() as patched:
            patched.setattr(maxmin.Mesh, "_meet", tangle)
            assert times(racks(uplink), hubs=False) == seen
        assert filled
        filled.clear()
