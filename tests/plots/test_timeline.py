"""The timeline: its window and rows worked out by hand from the run in handmade.py."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.patches import Patch
from matplotlib.path import Path
from numpy.typing import NDArray

from tests.handmade import SECOND, a_result, a_scenario, a_trace
from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import Phase, Trace
from varsim.report.charts import timeline
from varsim.report.charts.looks import PHASES
from varsim.report.charts.marks import drawn
from varsim.report.charts.spans import MOST_UPDATES
from varsim.report.told import Chart
from varsim.report.wording import unheld
from varsim.study.result import Result


def a_run(label: str, workers: int, steps: int, seconds: int = 1, cut: int = 1) -> Trace:
    """Workers that only compute: so many steps of so many seconds, each cut into spans."""
    rows = [
        (worker, Phase.COMPUTE, part * SECOND * seconds // cut, 0, part // cut)
        for worker in range(workers)
        for part in range(steps * cut)
    ]
    spans = np.array(rows, dtype=np.int64)
    spans[:, 3] = spans[:, 2] + SECOND * seconds // cut
    ends = np.arange(1, steps + 1, dtype=np.int64) * seconds * SECOND
    end = steps * seconds * SECOND
    return a_trace(label, workers=workers, spans=spans, end=end, steps=ends)


def result_of(traces: Sequence[Trace], **cluster: Any) -> Result:
    whole = a_scenario([trace.strategy for trace in traces])
    changes = {"workers": max(trace.workers for trace in traces), **cluster}
    changed = whole.cluster.model_copy(update=changes)
    return Result(whole.model_copy(update={"cluster": changed}), list(traces), [])


class TestWindow:
    def test_is_five_steps_of_the_first_strategy(self) -> None:
        slow, quick = a_run("slow", 3, 9, seconds=2), a_run("quick", 3, 30)
        assert timeline.window(result_of([slow, quick])) == 10
        assert timeline.window(result_of([quick, slow])) == 5

    def test_ends_when_half_of_the_workers_have_made_them(self) -> None:
        # Worker 0 ends its third, worker 1 its second iteration at 10 s, as the run does.
        assert timeline.window(a_result()) == 10
        run = a_run("a", 3, 6)
        straggler = run.spans[:, 0] == 2
        run.spans[straggler, 2:4] *= 2
        assert timeline.window(result_of([run])) == 5

    def test_is_shorter_where_another_strategy_would_show_too_much(self) -> None:
        # 1 s of it holds 40 spans of each worker, so 60 per worker take 1.5 s.
        fine = a_run("fine", 2, 10, cut=40)
        assert timeline.window(result_of([a_run("coarse", 2, 10), fine])) == 1.5

    def test_reaches_the_first_update_of_everybody_if_that_can_be_read(self) -> None:
        quick, slow = a_run("quick", 2, 30), a_run("slow", 2, 2, seconds=12)
        assert timeline.window(result_of([quick, slow])) == 12
        # To 12 s the fine one would show 30 spans of a worker in each second, to 13 s one too many.
        fine = a_run("fine", 2, 30, cut=timeline.MOST_TO_REACH // 12)
        assert timeline.window(result_of([fine, slow])) == 12
        slower = a_run("slower", 2, 2, seconds=13)
        assert timeline.window(result_of([fine, slower])) == 2

    def test_reaches_no_further_than_all_panels_together_can_be_read(self) -> None:
        slow = a_run("slow", 2, 2, seconds=12)
        most = timeline.MOST_TO_REACH // 12
        many = [a_run(f"fine {i}", 16, 30, cut=most) for i in range(2)]
        assert sum(12 * most * 16 for _ in many) > timeline.MOST_TO_DRAW
        assert timeline.window(result_of([many[0], slow])) == 12
        assert timeline.window(result_of([*many, slow])) == 2


NAMED = {"none": "async PS", "a": "A", "b": "B"}


def chart_of(result: Result, named: dict[str, str] = NAMED) -> Chart:
    return timeline.chart(result, timeline.content(result), named)


def spans_of(chart: Chart, worker: int | None, kind: str = "") -> list[tuple[object, ...]]:
    """Activity, start and end of what a worker does."""
    return [
        (row["activity"], row["start"], row["end"])
        for row in chart.rows()
        if (row["row"], row["kind"]) == (worker, kind) and row["activity"]
    ]


class TestChart:
    def test_of_the_run_by_hand(self) -> None:
        chart = chart_of(a_result())
        assert chart.remarks == {"async PS": "3 updates"}
        assert [end for _, _, end in spans_of(chart, None)] == [3, 5, 10]
        worked = [("compute", 0, 4), ("write", 4, 5), ("read", 5, 6), ("compute", 6, 10)]
        assert spans_of(chart, 1) == worked
        # The second gradient of worker 0 is dropped.
        assert spans_of(chart, 0, "vain") == [("compute", 4, 6)]

    def test_what_is_sent_beside_computation_has_a_lane(self) -> None:
        moments = ((1, 3), (5, 6), (9, 12))
        rows = [(1, Phase.WRITE, a * SECOND, b * SECOND, 0) for a, b in moments]
        sends = Rows.of(np.array(rows, dtype=np.int64))
        chart = chart_of(result_of([replace(a_trace(), send_rows=sends)]))
        sent = [(start, end) for _, start, end in spans_of(chart, 1, "beside")]
        assert sent == [(1, 3), (5, 6), (9, 10)], "the window ends at 10 s"

    def test_all_strategies_share_the_window(self) -> None:
        rows = chart_of(a_result({"a": (1,), "b": (2,)})).rows()
        assert {max(row["end"] for row in rows if row["who"] == who) for who in "AB"} == {10}

    def test_only_the_first_replication_is_shown(self) -> None:
        chart = chart_of(a_result({"a": (2, 1)}))
        assert [end for _, _, end in spans_of(chart, None)] == [6, 10, 20]

    def test_of_many_workers_the_slow_ones_are_shown(self) -> None:
        slow = a_scenario(
            cluster={
                "workers": 100,
                "compute": {"kind": "constant", "value": 1.0},
                "slow_workers": ({"rank": 70, "factor": 2.0},),
                "network": {
                    "kind": "star",
                    "bandwidth": 1.0,
                    "latency": 0.0,
                    "slow_links": ({"rank": 99, "factor": 2.0},),
                },
            }
        )
        chart = chart_of(Result(slow, [a_run("none", 100, 5)], []))
        shown = [*range(timeline.MOST_WORKERS - 2), 70, 99]
        assert sorted({row["row"] for row in chart.rows()} - {None}) == shown
        assert chart.remarks == {"async PS": "16 of 100 workers; 5 updates"}
        # A strategy with fewer workers than the cluster shows those that it has.
        alone = Result(slow, [replace(a_run("single", 1, 5), strategy="none")], [])
        assert {row["row"] for row in chart_of(alone).rows()} == {0, None}

    def test_a_first_update_beyond_the_window_is_told(self) -> None:
        fine = a_run("a", 2, 30, cut=timeline.MOST_TO_REACH // 12)
        chart = chart_of(result_of([fine, a_run("b", 2, 2, seconds=13)]))
        assert unheld(chart.remarks["B"]) == "0 updates, the first after 13 s"


def corners_of(boxes: Patch) -> NDArray[np.float64]:
    """Of each box that was drawn: its corners, the first again at the end."""
    path = boxes.get_path()
    closed = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    assert path.codes.reshape(-1, 5).tolist() == [closed] * (len(path.codes) // 5)
    return np.asarray(path.vertices).reshape(-1, 5, 2)


class TestDrawing:
    def test_a_box_per_span_and_a_line_per_update(self) -> None:
        figure, (axes,) = drawn([chart_of(a_result())], {})
        crosses, gaps, lines = axes.collections
        boxes, vain, read, write = (corners_of(each) for each in axes.patches)
        assert [len(each) for each in (boxes, vain, read, write)] == [4, 1, 3, 4]
        # What was dropped is faded, and crossed out.
        assert vain[0, 0, 0] == 4
        assert [each.get_facecolor()[3] for each in axes.patches] == [1, 0.35, 1, 1]
        assert [segment[:, 0].tolist() for segment in crosses.get_segments()] == [[4, 6], [6, 4]]
        assert boxes[0, :, 0].tolist() == [0, 2, 2, 0, 0]
        # A gap where each of the five gradients is begun.
        starts = sorted([*boxes[:, 0, 0], *vain[:, 0, 0]])
        assert sorted(segment[0][0] for segment in gaps.get_segments()) == starts
        assert [segment[0][0] for segment in lines.get_segments()] == [3, 5, 10]
        assert axes.get_xlim() == (0, 10)
        assert axes.get_xlabel() == "simulated time (s)"
        (legend,) = figure.legends
        said = [text.get_text() for text in legend.get_texts()]
        assert sorted(said) == ["compute", "dropped or lost", "read", "update", "write"]

    def test_too_many_updates_are_not_drawn(self) -> None:
        steps = np.arange(1, MOST_UPDATES + 2) * (10 * SECOND // 200)
        result = result_of([replace(a_trace("none"), steps=steps)])
        _, (axes,) = drawn([chart_of(result)], {})
        assert axes.get_title("right") == "151 updates"
        lines = [each for each in axes.collections if isinstance(each, LineCollection)]
        assert len(lines) == 2, "only the cross of what was dropped, and gaps between gradients"

    def test_every_phase_has_a_look(self) -> None:
        assert set(PHASES) == {phase.name.lower() for phase in Phase}

    def test_many_rows_are_drawn_lower(self) -> None:
        def high(count: int) -> float:
            result = result_of([a_run(str(n), 16, 5) for n in range(count)])
            named = {str(n): str(n) for n in range(count)}
            return float(drawn([chart_of(result, named)], {})[0].get_figheight())

        assert high(10) < 6 * high(1)
        assert high(10) < 20
