"""A planner's day: a plan and a sweep, as users start them, by the clock on the wall."""

import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.cases import scenario
from bench.measuring import Row, Spread, children, command
from bench.rows.engines import flat
from bench.rows.first_answer import NOT_THERE, unpacked

ROOT = Path(__file__).parents[2]
PLAN = ROOT / "scenarios" / "plan_resnet50.yaml"
WORKERS = list(range(8, 22))
# Ten times the 84 points of the scenario: 14 x 5 x 12.
SPACE = f"""plan:
  minimize: cost_per_hour
  space:
    zip:
      - cluster.workers: {WORKERS}
        strategies.sync.replicas_to_aggregate: {WORKERS}
        strategies.two backups.replicas_to_aggregate: {[workers - 2 for workers in WORKERS]}
      - cluster.network.bandwidth: [10 Gbit/s, 25 Gbit/s, 40 Gbit/s, 50 Gbit/s, 100 Gbit/s]
        prices.device_hour: [2.0, 2.1, 2.2, 2.25, 2.4]
        prices.server_hour: [0.4, 0.5, 0.6, 0.65, 0.8]
    cluster.parameter_servers: {list(range(1, 13))}
  tolerance: 1 %
"""
# 80 runs of 25 steps of each worker.
SWEEP = """# How do four strategies fare on 1,024 workers as the network gets faster?
name: sweep
seed: 1
replications: 1
cluster:
  workers: 1024
  compute: {kind: shifted_exponential, minimum: 100 ms, mean: 120 ms}
  parameter_servers: 64
  network: {kind: star, bandwidth: 100 Gbit/s, latency: 20 us, sharing: first_come}
workload:
  problem: {kind: timing}
  model: resnet50
  batch_size: 32
strategies:
  - {kind: on_write}
  - {kind: none}
  - {kind: sync_replicas, replicas_to_aggregate: 1024}
  - {kind: backup_workers, replicas_to_aggregate: 972}
stop: {examples: 819200}
sweep:
  cluster.network.bandwidth: {from: 10 Gbit/s, to: 200 Gbit/s, step: 10 Gbit/s}
  most_replications: 1
"""
# 2 x 25 x 10 cells, each run four times, 10 steps of each worker; or a fifth of them.
MANY = """# Which of these is the cheapest, by all runs?
name: many
seed: 1
replications: 4
cluster:
  workers: 256
  compute: {kind: shifted_exponential, minimum: 100 ms, mean: 120 ms}
  network: {kind: star, bandwidth: 400 Gbit/s, latency: 20 us, sharing: first_come}
workload:
  problem: {kind: timing}
  model: resnet50
  batch_size: 32
strategies:
  - {kind: none}
  - {kind: sync_replicas, replicas_to_aggregate: 256}
stop: {examples: 81920}
targets: {throughput: 1000 examples/s}
prices: {currency: USD, device_hour: 2.0, server_hour: 0.5}
plan:
  minimize: cost_per_hour
  space:
    cluster.parameter_servers: {from: 2, to: 50, step: 2}
    cluster.network.bandwidth: {from: 310 Gbit/s, to: 400 Gbit/s, step: STEP}
  most_replications: 4
"""
ALL, FIFTH = "10 Gbit/s", "50 Gbit/s"
BEFORE = "4df780f"  # the commit before there was a second engine


def rows(long: bool) -> Iterator[Row]:
    """Both on two processes."""
    if find_spec("numba") is not None:
        flat(scenario("none", 2, 2, "timing"))()  # machine code is made, if it is not
    with TemporaryDirectory() as folder:
        work = Path(folder)
        text = PLAN.read_text(encoding="utf-8")
        texts = {"plan": text[: text.index("plan:\n")] + SPACE, "sweep": SWEEP}
        names = {
            "plan": "plan_resnet50 with ten times its space, two processes",
            "sweep": "a sweep of 1,024 workers x 4 strategies x 20 points, two processes",
        }
        for kind, goal in (("plan", 20.0), ("sweep", 10.0)):
            (work / f"{kind}.yaml").write_text(texts[kind], encoding="utf-8")
            start, before = time.perf_counter(), children()
            command("-m", "varsim", kind, f"{kind}.yaml", "--jobs", "2", tree=ROOT, folder=work)()
            took, cpu = time.perf_counter() - start, children() - before
            yield Row(names[kind], goal, Spread.of([took]), " s", f"{cpu:.1f} s of CPU")


def beside_before(work: Path) -> Row:
    """CPU of a plan of 2,000 runs at 256 workers, beside that of an earlier commit.

    That took minutes: a fifth of it is measured.
    """
    name = f"CPU of a plan of 2,000 runs at 256 workers / that of commit {BEFORE}"
    if not unpacked(BEFORE, work / "before"):
        return Row(name, 0.1, None, remark=NOT_THERE)
    took = []
    for which, step, tree in (("now", ALL, ROOT), ("before", FIFTH, work / "before")):
        (work / f"{which}.yaml").write_text(MANY.replace("STEP", step), encoding="utf-8")
        options = f"{which}.yaml --exhaustive --jobs 1 --yes --out {which}-plan".split()
        before = children()
        command("-m", "varsim", "plan", *options, tree=tree, folder=work)()
        took.append(children() - before)
    now, fifth = took
    ratio = Spread.of([now / (5 * fifth)])
    return Row(name, 0.1, ratio, remark=f"{now:.0f} s / 5 x {fifth:.0f} s")
