"""The pictures of the gallery: `python docs/gallery.py [NAME ...]` draws them again.

Each is a plot of its scenario, run as its command runs it.
"""

import sys
from pathlib import Path
from typing import Final

import varsim
from varsim.report.charts.marks import drawn
from varsim.report.charts.style import write

# Inches, so that what is written can be read: in the gallery two are side by side, on the first
# page of the site three, and on a phone one.
WIDTH: Final = 4.4
OF_THREE: Final = 3.3
HERE: Final = Path(__file__).parent
PICTURES: Final = {
    "batch_norm": "time_split",
    "bounded_staleness": "loss",
    "checkpoint_interval": "throughput",
    "die_and_return": "time_split",
    "diloco_across_continents": "throughput",
    "heavy_tail": "throughput",
    "how_many_backups": "throughput",
    "how_many_servers": "heat",
    "k_of_n": "throughput",
    "llama_scale": "time_split",
    "local_steps": "loss",
    "metric_sum": "time_split",
    "more_gradients_than_workers": "throughput",
    "neighbours_only": "throughput",
    "one_failure_a_day": "throughput",
    "overlap": "throughput",
    "plan_resnet50": "pareto",
    "quickstart": "time_split",
    "racks": "throughput",
    "read_every": "throughput",
    "read_or_write": "throughput",
    "scale_out": "scaling",
    "server_bottleneck": "throughput",
    "sharded_7b": "time_split",
    "slow_network": "throughput",
    "slow_worker": "time_split",
    "spares_or_speed": "pareto",
    "sparse_rows": "throughput",
    "tokens_or_textbook": "throughput",
    "explore/servers": "throughput",
    "explore/staleness": "staleness",
    "explore/straggler": "throughput",
}
# Of two axes, which a page has sliders for, a small picture shows one.
HELD: Final[dict[str, dict[str, object]]] = {
    "explore/servers": {"cluster.network.bandwidth": "10 Gbit/s"},
    "explore/staleness": {"workload.optimizer.learning_rate": 1},
    "explore/straggler": {"strategies.sync_replicas.replicas_to_aggregate": 5},
}


def draw(name: str, folder: Path = HERE / "gallery") -> Path:
    """Draw the picture of a bundled scenario, or of a page to explore, into a folder."""
    kept = HERE if "/" in name else HERE.parent / "scenarios"
    report = varsim.load(kept / f"{name}.yaml", HELD.get(name, {})).run().report
    width = OF_THREE if "/" in name else WIDTH
    figure, _ = drawn(report.drawn()[PICTURES[name]], report.families, width)
    picture = folder / f"{Path(name).name}.svg"
    write(figure, picture)
    return picture


if __name__ == "__main__":
    for wanted in sys.argv[1:] or PICTURES:
        print(draw(wanted))
