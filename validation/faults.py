"""Recorded faults of 400 servers: one half of the record, predicted with constants of the other.

What fails, how often and for how long is told by the faults that began in one half: a rate, the
share of servers that fail more often, the median and mean of repairs. Random lives of jobs with
these constants are held against the life of the same job among the faults of the other half.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from validation.finding import Finding, Section
from validation.points.estimate import mean
from validation.references import REFERENCES
from varsim.cluster.description.failures import RecordedFailures
from varsim.scenario.loading import load_text
from varsim.scenario.training import Scenario
from varsim.study.result import simulate

SECTION: Final = Section(
    "faults",
    "Recorded faults",
    "Goodput of jobs on 400 servers, each half of 174 days of recorded faults predicted with "
    "constants of the other: MTBF, lemons (two rates, by maximum likelihood), and a lognormal law "
    "of repairs by their median and mean. A fault counts for no longer than the 87 days.",
    # Written down before anything was run.
    "What is played back lies in the middle 95 % of the random lives that are predicted for it: "
    "goodput, failures that meet the job.",
)
GROUP: Final = "faults of 400 servers"
GROUPS: Final = (GROUP,)
FILE: Final = REFERENCES / "stepfun_faults.csv"
SERVERS: Final = 400
SPLIT: Final = 87.0  # days, half of the record
_DAY: Final = 86_400.0
_LIVES: Final = 50
_SOURCE: Final = "stepfun-ai/InfiniteHBD-Trace (SIGCOMM 2025), Apache-2.0"
_WHY: Final = {
    "goodput": "faults come in bursts (gaps with a CV of 1.76), and are drawn independently",
    "failures_per_day": "a spare in the place of a lemon is taken to fail as that does",
}
_JOBS: Final = {
    "going on with fewer": "{policy: continue_with_fewer, restart: 10 min}",
    "16 hot spares": "{restart: 10 min, spares: {hot: 16}}",
    "32 hot spares": "{restart: 10 min, spares: {hot: 32}}",
}
_SCENARIO: Final = """
name: faults
replications: {lives}
cluster:
  workers: {servers}
  compute: {{kind: constant, value: 30 s}}
  network: {{kind: star, bandwidth: 400 Gbit/s, latency: 10 us, sharing: first_come}}
workload: {{problem: {{kind: timing, size: 1 GB}}, batch_size: 8}}
strategies: [{{kind: on_write}}]
checkpoint: {{every: 1 h, write: 1 min, restore: 1 min}}
recovery: {recovery}
failures: {{horizon: {days} d, detection: 5 min, {failures}}}
stop: {{global_steps: 2}}
"""


class Constants(NamedTuple):
    """What a record says of servers: rate of the others per day, lemons, repairs in days."""

    per_day: float
    share: float
    times: float
    median: float
    mean: float

    @property
    def failures(self) -> str:
        """The same as what fails in a scenario."""
        return (
            f"of: [{{domain: worker, per_day: {self.per_day}, "
            f"lemons: {{share: {self.share}, times: {self.times}}}, "
            f"repair: {{kind: lognormal, median: {self.median} d, mean: {self.mean} d}}}}]"
        )


def fitted(since: float, until: float) -> Constants:
    """The constants of faults that began in these days."""
    record = RecordedFailures.model_validate({"file": str(FILE)})
    rows = [one for one in record.played if since < one[0] / _DAY <= until]
    window = until - since
    counts, lengths, up = Counter(one[2] for one in rows), list[float](), SERVERS * window
    for when, _, _, end in rows:
        assert end is not None, "the record has ends"
        lasted = min((end - when) / _DAY, window)
        lengths.append(lasted)
        up -= min(lasted, until - when / _DAY)
    each = up / SERVERS
    numbers = np.array([counts.get(server, 0) for server in range(SERVERS)])
    share, low, high = 0.1, 0.5 * numbers.mean(), 5 * numbers.mean()
    for _ in range(1000):  # expectation maximization of a mixture of two Poisson laws
        odds = share * np.exp(-high) * high**numbers
        lemon = odds / (odds + (1 - share) * np.exp(-low) * low**numbers)
        share = float(lemon.mean())
        high = float(lemon @ numbers / lemon.sum())
        low = float((1 - lemon) @ numbers / (1 - lemon).sum())
    return Constants(
        low / each, share, high / low, float(np.median(lengths)), math.fsum(lengths) / len(lengths)
    )


def findings() -> list[Finding]:
    """Goodput and failures of each half, predicted with the constants of the other."""
    return [
        line
        for since, name in ((SPLIT, "days 87 to 174"), (0.0, "days 0 to 87"))
        for job in _JOBS
        for line in _compared(job, since, name)
    ]


def _compared(job: str, since: float, name: str) -> Iterator[Finding]:
    of = fitted(SPLIT - since, 2 * SPLIT - since)
    recorded = f"recorded: {{file: '{FILE}', since: {since} d}}"
    happened = _lived(job, recorded, 1)
    predicted = _lived(job, of.failures, _LIVES)
    for quantity, unit in (("goodput", ""), ("failures_per_day", "1/d")):
        lives, found = predicted[quantity], happened[quantity][0]
        least, most = np.quantile(lives, [0.025, 0.975])
        middle = mean(lives)
        line = Finding(
            GROUP,
            f"{name}, {job}",
            quantity.replace("_", " "),
            unit,
            found,
            middle.value,
            middle.half_width,
            source=_SOURCE,
        )
        bound = f"within {least:.3g} to {most:.3g}, the middle 95 % of lives"
        yield line.held(bool(least <= found <= most), bound, _WHY[quantity])


def _lived(job: str, failures: str, lives: int) -> Mapping[str, list[float]]:
    written: dict[str, Any] = {"lives": lives, "servers": SERVERS, "days": SPLIT}
    text = _SCENARIO.format(recovery=_JOBS[job], failures=failures, **written)
    scenario = load_text(text)
    assert isinstance(scenario, Scenario)
    result = simulate(scenario)
    return {name: list(result.values("on_write", name)) for name in ("goodput", "failures_per_day")}
