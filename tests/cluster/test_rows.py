"""Rows come back as they were, whatever they hold, in memory and from the disk."""

import gc
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.building import run
from tests.seams import Trace
from varsim.cluster.record import rows as packing
from varsim.cluster.record.rows import Rows, handed_over_in

SOURCE = np.random.default_rng(11)
# Equal, small, negative, over the whole range of times.
COLUMNS = [
    np.full(1_000, 7),
    SOURCE.integers(-1, 300, 1_000),
    SOURCE.integers(-1, 1 << 17, 1_000),
    SOURCE.integers(1 << 40, (1 << 40) + (1 << 31), 1_000),
    SOURCE.integers(-1, 1 << 62, 1_000),
]
ROWS = np.stack(COLUMNS, axis=1)


@pytest.mark.parametrize("most", [0, 250, 2_000])
def test_rows_come_back(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "BLOCK", 64)
    rows = Rows(5, most)
    assert rows.array().shape == (0, 5)
    for first, last in ((0, 300), (300, 300), (300, 301), (301, 1_000)):
        rows.append(ROWS[first:last])
    again = pickle.loads(pickle.dumps(rows))
    for one in (rows, again):
        assert len(one) == 1_000
        assert one.array().dtype == np.int64
        assert np.array_equal(one.array(), ROWS)
        assert np.array_equal(one.column(4), ROWS[:, 4])
        assert max(map(len, one.parts())) == 64
        assert np.array_equal(np.concatenate(list(one.parts([3, 1]))), ROWS[:, [3, 1]])
        assert np.array_equal(np.concatenate([b.array() for b in one.blocks()]), ROWS)
    assert rows == again == Rows.of(ROWS)
    again.append(ROWS[:1])
    assert rows != again
    assert rows != Rows.of(ROWS + 1)


@pytest.mark.parametrize("together", [10, 300, 10_000])
def test_rows_by_a_column_and_the_least_of_them(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "BLOCK", 64)
    monkeypatch.setattr(packing, "_TOGETHER", together)
    keyed = ROWS.copy()
    keyed[:, 1] = SOURCE.integers(0, 20, len(ROWS))
    rows = Rows.of(keyed)
    groups = list(rows.of_each(1, 21))
    assert (len(groups) == 1) == (together == 10_000)
    expected = keyed[np.argsort(keyed[:, 1], kind="stable")]
    assert np.array_equal(np.concatenate(groups), expected)
    assert np.array_equal(np.concatenate(list(rows.of_each(1, 21, [4, 1]))), expected[:, [4, 1]])
    assert [len(group) for group in Rows(5).of_each(1, 21)] == [0]

    for count in (0, 1, 77, 1_000, 2_000):
        first = np.sort(np.argsort(keyed[:, 1], kind="stable")[:count])
        assert np.array_equal(rows.least(1, count), keyed[first])
    few = rows.least(1, 5, lambda part: part[:, 2] > 0)
    chosen = keyed[keyed[:, 2] > 0]
    assert np.array_equal(few, chosen[np.sort(np.argsort(chosen[:, 1], kind="stable")[:5])])


def test_rows_on_disk_are_handed_over_as_files(tmp_path: Path) -> None:
    rows = Rows(5, most=10)
    rows.append(ROWS)
    with handed_over_in(str(tmp_path)):
        sent = pickle.dumps(rows)
    assert len(sent) < 2_000
    assert len(list(tmp_path.iterdir())) == 1
    again = pickle.loads(sent)
    assert not list(tmp_path.iterdir())
    assert again == rows
    again.append(ROWS)
    assert np.array_equal(again.array(), np.concatenate((ROWS, ROWS)))
    assert len(rows) == 1_000


def test_what_is_on_disk_takes_no_memory() -> None:
    many = SOURCE.integers(0, 1 << 62, (50_000, 4))
    tracemalloc.start()
    rows = Rows(4, most=1_000)
    for _ in range(5):
        rows.append(many)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 100_000
    assert np.array_equal(rows.array(), np.concatenate([many] * 5))


@pytest.mark.parametrize(
    "strategy", ["none", "on_write", {"kind": "sync_replicas", "replicas_to_aggregate": 40}]
)
def test_a_run_keeps_few_bytes_of_a_worker_step(strategy: str | dict[str, object]) -> None:
    def of(steps: int) -> Trace:
        return run(
            strategy,
            cluster={"workers": 40, "compute": {"kind": "exponential", "mean": 0.1}},
            network={"bandwidth": 1e7, "latency": 1e-5, "sharing": "first_come"},
            problem={"kind": "timing", "size": 1e4},
            workload={"optimizer": None},
            stop={"global_steps": 40 * steps if strategy == "none" else steps},
        )

    of(2)  # what is made once and for all
    tracemalloc.start()
    trace = of(100)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(trace.gradient_rows) >= 4_000
    assert kept <= 150 * len(trace.gradient_rows)
