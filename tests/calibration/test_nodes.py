"""Nodes from collectives: what is fitted is what the times were made with."""

import re
from pathlib import Path

import pytest

from tests.seams import Run, load_scenario, run_one
from varsim import Scenario
from varsim.calibration.forms import Measurements
from varsim.calibration.fragment import Line, described, fragment, ring_time
from varsim.calibration.measurement import TransferTable, UnreadableError, transfer

INSIDE, CARDS = Line(3e-6, 1 / 150e9), Line(8e-6, 1 / 24e9)
NODES = described(4, INSIDE, CARDS)
SIZES = [4.0**power for power in range(5, 15)]


def table(ranks: int, name: str = "all_reduce") -> TransferTable:
    times = [transfer(name, ranks, size, ring_time(name, ranks, size, NODES)) for size in SIZES]
    return TransferTable("nccl.txt", name, "", tuple(times), (), (name, ranks))


def printed(*tables: TransferTable, size: float | None = None, per_node: int = 4) -> str:
    return "\n".join(fragment(Measurements(tables, None), size, None, per_node).lines)


def refusal(*tables: TransferTable, **options: float) -> str:
    with pytest.raises(UnreadableError) as caught:
        printed(*tables, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_links_inside_and_cards_are_found() -> None:
    text = printed(table(4), table(16), table(32, "all_gather"))

    inside = "inside: {bandwidth: 150 GB/s, latency: 3 us}"
    assert f"network: {{kind: nodes, workers_per_node: 4, {inside}, bandwidth: 24 GB/s" in text
    (latency,) = re.findall(r"24 GB/s, latency: (\S+) us", text)
    assert float(latency) == pytest.approx(8, rel=1e-4)  # times are in whole ns
    assert text.count("+0.0 %") + text.count("-0.0 %") == 3 * len(SIZES)


def test_the_time_of_a_ring_is_that_of_a_run(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(
        "name: n\ncluster:\n  workers: 8\n  compute: {kind: constant, value: 1 s}\n"
        + printed(table(4), table(16)).splitlines()[-1]
        + "\nworkload:\n  problem: {kind: timing, size: 4 MB}\nstrategies: [{kind: on_write}]\n"
        "stop: {global_steps: 1}\nreplications: 1\n"
    )
    found = load_scenario(file)
    assert isinstance(found, Scenario)

    assert run_one(Run(found, 0, 0)).end / 1e9 - 1 == pytest.approx(
        ring_time("all_reduce", 8, 4e6, NODES), rel=1e-4
    )


def test_what_does_not_tell_of_nodes_is_refused() -> None:
    host = TransferTable("host.csv", "messages", "", table(4).transfers)

    assert "need a collective of more ranks, across several" in refusal(table(4))
    assert "need a collective of at most 4 ranks, inside one" in refusal(table(16))
    assert "host.csv: messages from host to host: inside nodes" in refusal(host)
    assert "6 ranks are not whole nodes of 4 workers" in refusal(table(4), table(6))
    assert "broadcast across nodes cannot be fitted" in refusal(
        table(4), table(16)._replace(collective=("broadcast", 16))
    )
    assert "--size has no effect" in refusal(table(4), table(16), size=1e6)
