"""What is said of a run in which everybody waits forever, and what frees it."""

import pytest

from tests.building import MS, assert_same, run, scenario, slow
from tests.seams import Phase, Standstill, Trace


def stuck(trace: Trace) -> Standstill:
    """What is said of a run that stands still."""
    assert trace.stopped_by == "deadlock"
    assert trace.standstill is not None
    return trace.standstill


class TestDeadlock:
    def test_too_few_tokens_to_begin_with(self) -> None:
        # N = T = 4 of 2 workers without initial tokens: both push once and wait for an update
        # that needs 4.
        trace = run(
            {
                "kind": "sync_replicas",
                "replicas_to_aggregate": 4,
                "total_num_replicas": 4,
                "initial_tokens": 0,
            },
            cluster={"workers": 2, "slow_workers": (slow(1, 2.5),)},
        )

        assert stuck(trace).time == trace.end == 250 * MS
        assert stuck(trace).report == (
            "sync_replicas: the run deadlocked at 0.25 s, after 0 updates: "
            "nothing can happen any more.\n"
            "  workers 0, 1: waiting for a token (queue empty, 2 waiting)\n"
            "  chief: waiting for 4 gradients of step 0 (2 have come)\n"
            "  to free it: initial_tokens: 2 at least"
        )

    def test_some_tokens_to_begin_with_and_no_more(self) -> None:
        # N = T = 5 of 2 workers with 2 tokens: 4 gradients of 5, the last at 200 ms by both.
        settings = {
            "kind": "sync_replicas",
            "replicas_to_aggregate": 5,
            "total_num_replicas": 5,
            "initial_tokens": 2,
        }
        said = stuck(run(settings, cluster={"workers": 2})).report

        assert "deadlocked at 0.2 s, after 0 updates" in said
        assert "(4 have come)" in said
        assert "to free it: initial_tokens: 3 at least" in said
        freed = run({**settings, "initial_tokens": 3}, cluster={"workers": 2})
        assert freed.stopped_by == "global_steps"

    def test_what_stands_still_under_a_time_limit_does_so_until_the_end(self) -> None:
        # The same; time passes, and the spans say what it was spent on.
        trace = run(
            {
                "kind": "sync_replicas",
                "replicas_to_aggregate": 5,
                "total_num_replicas": 5,
                "initial_tokens": 2,
            },
            cluster={"workers": 2},
            stop={"time": 1.0},
        )

        assert stuck(trace).time == 200 * MS
        assert trace.end == 1000 * MS
        assert trace.global_step == 0
        assert trace.spans[-1].tolist() == [1, Phase.TOKEN, 200 * MS, 1000 * MS, 1]

    def test_what_goes_on_until_the_time_limit_does_not_stand_still(self) -> None:
        # Standing still is having nothing to do: here all compute as the time is over.
        trace = run("none", stop={"time": 0.25})
        assert (trace.stopped_by, trace.standstill) == ("time", None)

    @pytest.mark.parametrize(
        ("settings", "least"),
        [
            ({"replicas_to_aggregate": 5, "initial_tokens": 1}, 2),
            ({"replicas_to_aggregate": 2, "initial_tokens": -2}, -1),
            ({"replicas_to_aggregate": 5, "total_num_replicas": 4, "initial_tokens": 0}, 1),
        ],
    )
    def test_initial_tokens_that_cannot_do_are_refused(
        self, settings: dict[str, int], least: int
    ) -> None:
        # 3 workers; TensorFlow: "initial tokens must be at least N - T".
        with pytest.raises(ValueError, match=f"initial_tokens must be at least {least} "):
            scenario({"kind": "sync_replicas", **settings})
        for enough in {least, least + 1} - {-1}:
            scenario({"kind": "sync_replicas", **settings, "initial_tokens": enough})
        with pytest.raises(ValueError, match=f", not {least - 5} "):
            scenario({"kind": "sync_replicas", **settings, "initial_tokens": least - 5})

    @pytest.mark.parametrize(
        ("needed", "given", "advised"),
        [(5, 0, 2), (5, 1, 2), (9, 2, 6), (9, 5, 6), (20, -2, 17), (4, 0, 1)],
    )
    def test_the_advised_initial_tokens_free_it_and_one_less_does_not(
        self, needed: int, given: int, advised: int
    ) -> None:
        # 3 workers begin without a token; every token is one gradient more, and all count.
        def tried(tokens: int) -> Trace:
            return run(
                {
                    "kind": "sync_replicas",
                    "replicas_to_aggregate": needed,
                    "total_num_replicas": needed + 2,
                    "initial_tokens": tokens,
                },
                stop={"global_steps": 1},
            )

        trace = tried(given)
        assert trace.stopped_by == "deadlock"
        assert f"to free it: initial_tokens: {advised} at least" in stuck(trace).report
        assert tried(advised).stopped_by == "global_steps"
        assert tried(advised - 1).stopped_by == "deadlock"

    @pytest.mark.parametrize(("given", "there"), [(0, 0), (-2, 0), (1, 1), (5, 5)])
    def test_so_many_initial_tokens_are_so_many_iterations(self, given: int, there: int) -> None:
        # N = 20, T = 22, 3 workers: each begins one iteration without a token, then they stop.
        trace = run(self.settings(given))
        assert trace.stopped_by == "deadlock"
        assert len(trace.gradients) == 3 + there

    def test_minus_one_and_nothing_stand_for_the_default(self) -> None:
        assert_same(run(self.settings(-1)), run(self.settings(None)))
        assert_same(run(self.settings(20)), run(self.settings(None)))

    @staticmethod
    def settings(initial_tokens: int | None) -> dict[str, object]:
        numbers = {"replicas_to_aggregate": 20, "total_num_replicas": 22}
        return {"kind": "sync_replicas", **numbers, "initial_tokens": initial_tokens}
