"""A sweep block becomes points, or is refused with the place and what to type."""

from dataclasses import replace

import pytest

from tests.seams import load_text, sweep_of_text
from tests.sweep.sweeping import BASE, sweep
from varsim import ScenarioError


def texts(block: str, *sets: str) -> list[tuple[str, ...]]:
    return [tuple(value.text for value in point.values) for point in sweep(block, sets).points]


def faults(block: str, *sets: str) -> list[str]:
    with pytest.raises(ScenarioError) as refused:
        sweep(block, sets)
    return [str(fault).splitlines()[0] for fault in refused.value.problems]


class TestValues:
    def test_a_list(self) -> None:
        assert texts("cluster.workers: [2, 4, 8]") == [("2",), ("4",), ("8",)]

    @pytest.mark.parametrize(
        ("path", "values", "expected"),
        [
            ("cluster.workers", "{from: 2, to: 8, step: 3}", "2 5 8"),
            ("cluster.workers", "{from: 8, to: 2, step: -4}", "8 4"),
            ("cluster.workers", "{from: 2, to: 10, points: 4}", "2 5 7 10"),
            ("cluster.workers", "{from: 2, to: 256, points: 8, spacing: log}",
             "2 4 8 16 32 64 128 256"),
            ("cluster.workers", "{from: 2, to: 4, points: 9, spacing: log}", "2 3 4"),
            ("stop.time", "{from: 1 s, to: 2 s, step: 500 ms}", "1 s|1.5 s|2 s"),
            ("cluster.network.bandwidth", "{from: 1 Gbit/s, to: 100 Gbit/s, points: 3, "
             "spacing: log}", "1 Gbit/s|10 Gbit/s|100 Gbit/s"),
            ("workload.problem.size", "{from: 0.1 MB, to: 0.3 MB, step: 0.1 MB}",
             "100 kB|200 kB|300 kB"),
        ],
    )  # fmt: skip
    def test_a_range(self, path: str, values: str, expected: str) -> None:
        found = [value for (value,) in texts(f"{path}: {values}")]
        assert found == expected.split("|" if "|" in expected else " ")

    def test_values_are_numbers_in_si_and_columns_say_so(self) -> None:
        swept = sweep("cluster.network.latency: [10 us, 20 us]")
        assert swept.quantities[0].column == "cluster.network.latency_s"
        assert [point.values[0].number for point in swept.points] == [10e-6, 20e-6]
        assert [point.scenario.cluster.network.latency for point in swept.points] == [10e-6, 20e-6]

    def test_mappings_are_values_too(self) -> None:
        law = "{kind: constant, value: 100 ms}"
        swept = sweep(f"cluster.compute: [{law}, {{kind: exponential, mean: 100 ms}}]")
        assert swept.points[0].values[0].number == law
        kinds = [
            p.scenario.cluster.compute and p.scenario.cluster.compute.kind for p in swept.points
        ]
        assert kinds == ["constant", "exponential"]


class TestSpace:
    def test_a_product_varies_its_last_axis_fastest(self) -> None:
        found = texts("cluster.workers: [2, 4]\nworkload.batch_size: [8, 16]")
        assert found == [("2", "8"), ("2", "16"), ("4", "8"), ("4", "16")]

    def test_a_zip_goes_in_step(self) -> None:
        block = "zip: {cluster.workers: [2, 4], workload.batch_size: [16, 8]}\nseed: [1, 2]"
        assert texts(block) == [
            ("2", "16", "1"),
            ("2", "16", "2"),
            ("4", "8", "1"),
            ("4", "8", "2"),
        ]
        assert [quantity.group for quantity in sweep(block).quantities] == [0, 0, 1]

    def test_several_zips(self) -> None:
        block = (
            "zip:\n"
            "  - {cluster.workers: [2, 4], workload.batch_size: [16, 8]}\n"
            "  - {seed: [1, 2], stop.global_steps: [3, 4]}"
        )
        assert len(texts(block)) == 4

    def test_strategies_by_kind_name_or_index(self) -> None:
        for path in ("strategies.backup_workers", "strategies.1", "strategies[1]"):
            swept = sweep(f'"{path}.replicas_to_aggregate": [1, 3]')
            numbers = [point.scenario.strategies[1].model_dump() for point in swept.points]
            assert [one["replicas_to_aggregate"] for one in numbers] == [1, 3]
        assert load_text(BASE, sets=["strategies.on_write.name=a"]).strategies[0].label == "a"

    def test_constraints_leave_points_out(self) -> None:
        block = (
            "cluster.workers: [1, 2, 3]\n"
            "strategies.backup_workers.replicas_to_aggregate: [1, 2, 3]\n"
            "where: strategies.backup_workers.replicas_to_aggregate <= cluster.workers"
        )
        assert [a >= b for a, b in texts(block)] == [True] * 6
        assert len(texts(block.replace("where: ", "where: 2 * ").replace("<=", "=="))) == 1

    def test_constraints_know_defaults_and_units(self) -> None:
        axes = "cluster.workers: [1, 2]\nstrategies.backup_workers.replicas_to_aggregate: [1]"
        assert len(texts(f"{axes}\nwhere: cluster.parameter_servers == cluster.workers")) == 1
        network = "cluster.network.bandwidth: [1 Gbit/s, 25 Gbit/s]"
        assert texts(f"{network}\nwhere: [cluster.network.bandwidth > 10 Gbit/s]") == [
            ("25 Gbit/s",)
        ]

    def test_precision_and_replications(self) -> None:
        plain = sweep("seed: [1, 2]")
        assert (plain.precision, plain.first_replications, plain.most_replications) == (0.02, 2, 30)
        own = sweep("seed: [1, 2]\nprecision: 0.5 %\nmost_replications: 9")
        assert (own.precision, own.most_replications) == (0.005, 9)
        given = sweep_of_text(BASE, sets=["seed=1,2", "replications=50"], precision=0.1)
        assert (given.precision, given.first_replications, given.most_replications) == (0.1, 50, 50)

    def test_the_written_sweep_has_the_same_points(self) -> None:
        block = (
            "zip: {cluster.workers: [4, 2], workload.batch_size: [8, 8]}\n"
            "strategies.backup_workers.replicas_to_aggregate: {from: 1, to: 4, step: 1}\n"
            "cluster.network.bandwidth: [1 Gbit/s, 25 Gbit/s]\n"
            "where: strategies.backup_workers.replicas_to_aggregate <= cluster.workers"
        )
        one = sweep(block, ["seed=5", "cluster.network.bandwidth=2 Gbit/s,3 Gbit/s"])
        again = sweep_of_text(one.yaml)
        assert again.points == one.points
        assert len(one.points) == 12
        assert replace(again, yaml="") == replace(one, yaml="")


class TestSets:
    def test_several_values_make_an_axis(self) -> None:
        assert texts("", "cluster.workers=4,8,16", "strategies.1.replicas_to_aggregate=2") == [
            ("4",), ("8",), ("16",)
        ]  # fmt: skip
        spaced = sweep_of_text(BASE, sets=["cluster.network.bandwidth=1 Gbit/s, 2 Gbit/s"])
        assert len(spaced.points) == 2
        ranged = sweep_of_text(BASE, sets=["seed={from: 1, to: 3, step: 1}"])
        assert len(ranged.points) == 3

    def test_in_brackets_as_in_a_file_unless_it_is_a_list_that_is_there(self) -> None:
        law = "{kind: constant, value: 100 ms}"
        laws = f"{law}, {{kind: exponential, mean: 100 ms}}"
        for text in (laws, f"[{laws}]"):
            swept = sweep_of_text(BASE, sets=[f"cluster.compute={text}"])
            assert swept.points[0].values[0].text == law
            assert len(swept.points) == 2
        slow = "cluster.slow_workers=[{rank: 0, factor: 2}]"
        assert len(sweep_of_text(BASE, sets=["seed=[1, 2, 3]", slow]).points) == 3
        with pytest.raises(ScenarioError, match="nothing to sweep"):
            sweep_of_text(BASE, sets=[slow])

    def test_an_axis_of_the_file_is_replaced_in_its_place_or_fixed(self) -> None:
        block = "cluster.workers: [2, 4]\nseed: [1, 2]"
        assert texts(block, "cluster.workers=8,9")[0] == ("8", "1")
        assert texts(block, "cluster.workers=3") == [("1",), ("2",)]

    def test_other_changes_are_made_at_all_points(self) -> None:
        swept = sweep("seed: [1, 2]", ["workload.batch_size=7"])
        assert {point.scenario.workload.batch_size for point in swept.points} == {7}


class TestRefusals:
    @pytest.mark.parametrize(
        ("block", "said"),
        [
            ("cluster.wrokers: [1]", "17:3: error: cluster has no 'wrokers'; did you mean "
             "'cluster.workers'?"),
            ("whre: [1]", "17:3: error: a scenario has no 'whre'; did you mean 'where'?"),
            ("space: {cluster.workers: [1, 2]}", "17:3: error: only a plan has a space: in a sweep "
             "write its paths right under 'sweep:'"),
            ("cluster.workers: 4", "17:20: error: write a list of values, or a range: {from: "),
            ("cluster.workers: []", "17:20: error: an empty list"),
            ("cluster.workers: [2, 4, 2]", "17:27: error: '2' is there twice"),
            ("cluster.workers: {from: 1}", "17:20: error: to is missing"),
            ("cluster.workers: {from: 1, to: 4}", "17:20: error: give either step or points"),
            ("cluster.workers: {from: 1, to: 4, stpe: 1}", "17:37: error: unknown key 'stpe' of a "
             "range; did you mean 'step'?"),
            ("cluster.workers: {from: 1, to: 4, step: -1}", "17:43: error: step does not lead"),
            ("cluster.workers: {from: 0, to: 4, points: 3, spacing: log}", "17:20: error: with "
             "spacing: log"),
            ("stop.time: {from: 1, to: 4 s, step: 1 s}", "17:21: error: from must be a number, "
             "such as 20 ms"),
            ("stop.time: {from: 1 sec, to: 4 s, step: 1 s}", "17:21: error: from: unknown unit"),
            ("cluster.workers: [x]", "17:21: error: cluster.workers must be a whole number"),
            ("cluster.network.bandwidth: [10 Gb]", "17:31: error: cluster.network.bandwidth: "),
            ("strategies.none.on: [1]", "17:3: error: no strategy has the name or kind 'none'"),
            ("strategies.on: [1]", "17:3: error: strategies is a list: write strategies.0."),
            ("strategies.7.on: [1]", "17:3: error: strategies has no entry 7; entries: 0 and 1"),
            ("name: [a, b]", "17:3: error: name is not varied: "),
            ("replications: [1, 2]", "17:3: error: replications is not varied: "),
            ("seed: [1]\nzip: {stop.global_steps: [1]}", "18:3: error: zip takes a mapping of two"),
            ("zip: {seed: [1, 2], stop.global_steps: [1]}", "17:3: error: what is zipped must have "
             "as many values each: 2 of seed, 1 of stop.global_steps"),
            ("seed: [1]\nprecision: 2", "18:14: error: precision: '2' is not a percentage"),
            ("seed: [1]\nprecision: 0 %", "18:14: error: precision: '0 %' is not a percentage"),
            ("seed: [1]\nmost_replications: 0", "18:22: error: most_replications must be"),
            ("seed: [1]\nmost_replications: 1", "18:22: error: most_replications is 1, but"),
            ("seed: [1]\nwhere: seed < 1", "18:10: error: no point is left"),
            ("seed: [1]\nwhere: seed <", "18:16: error: a path or a number is missing here"),
            ("seed: [1]\nwhere: name < 1", "18:10: error: 'name' is not a number"),
            ("seed: [1]\nwhere: sede < 1", "18:10: error: 'sede' is not part of a scenario"),
            ("seed: [1]\nwhere: stop.time < 1 s", "18:10: error: 'stop.time' has no value"),
            ("seed: [1]\nwhere: stop.time < 1", "18:22: error: a time (such as 20 ms) is compared "
             "with a number without unit"),
            ("seed: [1]\nwhere: cluster.network.latency + 2 MB < 3 s", "18:36: error: a time"),
            ("stop.time: [1 s, 1000 ms]", "17:20: error: '1000 ms' is there twice"),
            ("seed: [1, 1.0]", "17:13: error: '1.0' is there twice"),
            ("cluster.network.latency: [1 us]\ncluster.network: [{latency: 1 us}]", "18:21: error: "
             "cluster.network.latency and cluster.network are both swept, though one is part of"),
            ("precision: 2 %", "16:1: error: nothing to sweep"),
            ("seed: [1, 2]\n'strategies[0].name': [a]\nstrategies.0.name: [b]", "19:23: error: "
             "strategies.0.name is swept twice"),
            ("seed: {from: 1, to: 20000, step: 1}", "17:36: error: 20,000 values; at most 10,000"),
            ("seed: {from: 1, to: 9999, step: 1}\nstop.global_steps: {from: 1, to: 999, step: 1}",
             "17:9: error: 9,989,001 combinations"),
        ],
    )  # fmt: skip
    def test_each_at_its_place(self, block: str, said: str) -> None:
        found = faults(block)
        assert found[0].startswith(f"scenario:{said}"), found
        assert len(found) == 1

    def test_a_point_that_is_no_scenario_is_told_with_its_values(self) -> None:
        block = (
            "cluster.workers: [1, 4]\nstrategies.backup_workers.replicas_to_aggregate: [1, 2, 3]"
        )
        (found,) = faults(block, "seed=4")[:1]
        assert found.startswith("scenario:18:56: error: ")
        assert (
            "(at cluster.workers = 1, strategies.backup_workers.replicas_to_aggregate = 2" in found
        )
        assert "a line in 'where' leaves such points out" in found

    def test_a_value_that_is_none_is_no_matter_of_where(self) -> None:
        (found,) = faults("cluster.workers: [a, 2]")
        assert found.endswith("not 'a' (at cluster.workers = a)")

    def test_what_is_wrong_at_all_points_is_told_plainly(self) -> None:
        (found,) = faults("seed: [1, 2]", "cluster.workers=0")
        assert found.startswith("--set cluster.workers=0: error: cluster.workers must be")
        assert "where" not in found

    def test_changes(self) -> None:
        (found,) = faults("seed: [1]", "sweep.seed=3")
        assert found.startswith("--set sweep.seed=3: error: the sweep's settings")
        for empty in ("1,,2", ",1", "1, ,2"):
            (found,) = faults("seed: [1]", f"cluster.workers={empty}")
            assert "empty value" in found
        assert (
            "several strategies have kind"
            in faults(
                "seed: [1]", "strategies.1={kind: on_write, name: b}", "strategies.on_write.on=1,2"
            )[0]
        )
        zipped = "zip: {seed: [1, 2], stop.global_steps: [1, 2]}"
        assert "zipped with others" in faults(zipped, "seed=1")[0]

    def test_no_change_is_lost_in_what_is_swept(self) -> None:
        block = "cluster.network: [{kind: star, bandwidth: 1 Gbit/s, latency: 1 us}]"
        (found,) = faults(block, "cluster.network.latency=1 ms")
        assert found.startswith(
            "--set cluster.network.latency=1 ms: error: cluster.network.latency"
        )
        assert found.endswith("is part of what is swept: its values say what it is")

    def test_nothing_to_sweep(self) -> None:
        with pytest.raises(ScenarioError, match="nothing to sweep"):
            sweep_of_text(BASE)

    def test_an_ordinary_command_says_what_to_type(self) -> None:
        with pytest.raises(ScenarioError) as refused:
            load_text(BASE + "sweep:\n  seed: [1, 2]\n", "a.yaml")
        assert str(refused.value).splitlines()[0] == (
            "a.yaml:16:1: error: many scenarios in one file: run it with 'varsim sweep a.yaml'"
        )
