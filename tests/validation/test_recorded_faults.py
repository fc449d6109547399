"""Constants of recorded faults, and what is predicted with them."""

import pytest

from validation.faults import SERVERS, SPLIT, findings, fitted
from validation.finding import Verdict


def test_the_constants_give_back_how_many_faults_there_were() -> None:
    """Of days 0 to 87: 160 faults, half of which took 1.49 days or less."""
    found = fitted(0.0, SPLIT)

    often = found.per_day * (1 + found.share * (found.times - 1))
    # 160 per 34,800 days of servers, less those in which they were down.
    assert 160 / (SERVERS * SPLIT) < often < 1.06 * 160 / (SERVERS * SPLIT)
    assert 0.05 < found.share < 0.2
    assert found.times > 5
    assert found.median == pytest.approx(1.49, abs=0.01)
    assert found.median < found.mean < SPLIT / 4


@pytest.mark.slow
def test_goodput_of_the_other_half_is_predicted_where_bursts_do_not_matter() -> None:
    lines = {(one.name, one.quantity): one for one in findings()}

    assert len(lines) == 12
    for job in ("going on with fewer", "32 hot spares"):
        one = lines[f"days 87 to 174, {job}", "goodput"]
        assert one.verdict is Verdict.PASS
        assert one.error == pytest.approx(0, abs=0.01)
    assert lines["days 0 to 87, 32 hot spares", "goodput"].verdict is Verdict.MISS
