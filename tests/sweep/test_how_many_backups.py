"""The best number of backup workers is found where a closed form has it."""

import pytest

from tests.test_scenarios import SWEEPS, swept
from varsim.study.grid import GridRow as Row
from varsim.study.grid import SweepTable as Table
from varsim.study.verdict import ranked


class TestHowManyBackups:
    """scenarios/how_many_backups.yaml against the closed form of its comment.

    `best-k-shiftexp-03` of the collected closed forms: n = 16 workers, delta = 0.5 s, mu = 1/s:
    k* = argmax k / (delta + (H_n - H_{n-k}) / mu) = 10, with 6.9894 gradients used per second
    (David and Nagaraja, Order Statistics, 2003, ch. 2; Chen et al., 2016, sect. 4).
    """

    BEST, RATE = 10, 6.989443876041914

    @staticmethod
    def rate(k: int, n: int = 16) -> float:
        waited = sum(1 / i for i in range(n - k + 1, n + 1))
        return k / (0.5 + waited)

    def test_the_closed_form(self) -> None:
        assert max(range(1, 17), key=self.rate) == self.BEST
        assert self.rate(self.BEST) == pytest.approx(self.RATE, rel=1e-12)

    def test_the_optimum_is_found_within_its_interval(self) -> None:
        (path,) = (path for path in SWEEPS if path.stem == "how_many_backups")
        # N = 7, 10, 13 and 16 stand for all; test_every_n has the others.
        self.check(swept(path, slice(3, None, 3), 16, ["backup_workers"]))

    @pytest.mark.slow
    def test_every_n(self) -> None:
        (path,) = (path for path in SWEEPS if path.stem == "how_many_backups")
        # The best of thirteen is known by wider intervals than one of two.
        self.check(swept(path, slice(None), 100, ["backup_workers"], precision=0.008))

    def check(self, table: Table) -> None:
        speeds = {self.replicas(row): row.values("examples_per_s") for row in table.rows}
        found = ranked(speeds, equal_within=0.0, highest=True)
        candidates = set() if found is None else set(found.tied)
        assert self.BEST in candidates
        assert len(candidates) <= 3, "the interval is narrow enough to say something"
        for row in table.rows:
            expected = self.rate(self.replicas(row))
            rate = row.estimate("examples_per_s")
            # Twice the 95 % half-width: none of a dozen points is beyond it by chance.
            assert abs(rate.mean - expected) <= 2 * rate.half_width + 1e-3 * expected
            assert rate.half_width < 0.03 * expected

    @staticmethod
    def replicas(row: Row) -> int:
        return int(row.candidate.point.values[0].text)
