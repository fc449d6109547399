"""The printed page: complete, of the given width, and with the numbers of the run."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.explain.telling import TEXT, acting, rows, scenario, traced
from varsim.cli import app as cli
from varsim.report.explain.look import looks
from varsim.report.explain.report import Scale, explanation, lines_of
from varsim.report.render import markdown
from varsim.report.terminal import flow, terminal
from varsim.scenario.fault import ScenarioError
from varsim.scenario.loading import load_scenario
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.rows import rows_of

SCENARIOS = Path(__file__).parent.parent.parent / "scenarios"
WRITE = ["add, value: [3, 1, 2]"]


def page(made: VariablesScenario, width: int = 80, **options: object) -> list[str]:
    told = explanation(made, "file.yaml", "Why?", **options)
    return terminal(told, width).splitlines()


def test_a_page_by_hand() -> None:
    made = acting("on_read", "sum", WRITE, ["read", "save", "restore"])
    assert (
        page(made)
        == """\
told
Why?

machines   3 workers with one replica each; links of 1 Gbit/s each way, latency
           50 us
variable   x: one float32 (4 B), starts as 0; aggregation sum
each step  every replica: add 3 | 1 | 2 to x
           then outside, when all replicas are done: read x; save a checkpoint;
           restore it
who        all replicas, some by their numbers, or outside: the program that
           drives them, which runs on the machine of worker 0
a | b | c  one value for each replica, in the order of their numbers

== on_read =====================================================================
Every replica has its own copy of x; it writes and reads that one alone, and
waits for nobody. From outside, the value is the sum of all copies: for every
read and save they are sent to worker 0 and added up there. What is restored is
divided by the number of replicas, 3: the copies add up to it again.

when               who      what happens                            copies after
-----------------  -------  --------------------------------------  ------------
before step 1
   0.0 to 50.1 us  outside  creates x on replica 0 and copies it    0 | 0 | 0
                            to the others: 0 everywhere
                            sent: worker 0 -> workers 1, 2: 4 B
                                  each, 50.1 us
step 1
          50.1 us  all      add 3 | 1 | 2, each to its own copy     3 | 1 | 2
 50.1 to 100.1 us  outside  reads 6 = 3 + 1 + 2, the sum of all     3 | 1 | 2
                            copies
                            sent: workers 1, 2 -> worker 0: 4 B
                                  each, 50.1 us
100.1 to 150.2 us  outside  saves 6 = 3 + 1 + 2, the sum of all     3 | 1 | 2
                            copies
                            sent: workers 1, 2 -> worker 0: 4 B
                                  each, 50.1 us
150.2 to 200.3 us  outside  restores 6: every copy is set           2 | 2 | 2
                            to 6 / 3 = 2
                            sent: worker 0 -> workers 1, 2: 4 B
                                  each, 50.1 us

After the variables were created, 1 step took 150.2 us and sent 6 messages, 24 B
in all.
""".splitlines()
    )


def test_in_markdown() -> None:
    made = acting("on_write", "sum", WRITE, (), "program.steps=2")
    found = markdown(explanation(made, "file.yaml", "Why?", steps=1)).split("\n")
    assert found[:3] == ["# told", "", "Why?"]
    table = [line for line in found if line.startswith("|")]
    assert table == [
        "| when | who | what happens | sent | copies after |",
        "| ---: | --- | --- | --- | --- |",
        "| **before step 1** |  |  |  |  |",
        "| 0.0 to 50.1 us | outside | creates x on replica 0 and copies it to the others: 0 "
        "everywhere | worker 0 -> workers 1, 2: 4 B each, 50.1 us | 0 \\| 0 \\| 0 |",
        "| **step 1** |  |  |  |  |",
        "| 50.1 to 250.2 us | all | hand over 3 \\| 1 \\| 2; their sum 6 = 3 + 1 + 2 is added to "
        "every copy | ring all-reduce in 4 rounds: 4 messages, 16 B in all, 200.1 us | "
        "6 \\| 6 \\| 6 |",
    ]
    assert found[-2:] == ["Step 2: --steps 2 shows them all.", ""]


def many() -> list[VariablesScenario]:
    """Pages that need room: long names, many replicas, large arrays, many variables."""
    law = "cluster.compute={kind: exponential, mean: 10 ms}"
    drawn = "{kind: normal, mean: 1e-7, standard_deviation: 3}"
    name = "v" * 40
    acts = (f"{{kind: assign_add, variable: {name}, value: {drawn}}}",)
    acts += ("{kind: assign, variable: w, value: -1.2345678e-30}",)
    wide = scenario(
        "modes=[on_read, on_write]",
        f"variables=[{{name: {name}, shape: [100], aggregation: mean}}, {{name: w}}]",
        f"program={{steps: 3, replicas: [{', '.join(acts)}]}}",
        "cluster.workers=9",
    )
    crowd = [
        acting(mode, "sum", ["compute", "add, value: 0.1"], ["read"], law, f"cluster.workers={n}")
        for mode in ("on_read", "on_write", "none")
        for n in (1, 2, 8, 9, 64, 65)
    ]
    return [wide, *crowd]


@pytest.mark.parametrize("made", many(), ids=lambda made: f"{made.labels}{made.cluster.workers}")
@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_longer_than_the_page(made: VariablesScenario, width: int) -> None:
    found = page(made, width=width)
    assert max(map(len, found)) <= width
    assert not any(line != line.rstrip() for line in found)
    assert all(line.isascii() for line in found)


@pytest.mark.parametrize("made", many(), ids=lambda made: f"{made.labels}{made.cluster.workers}")
def test_times_are_those_of_the_rows(made: VariablesScenario) -> None:
    told = rows_of(made, traced(made))
    lines = lines_of(told, looks(made, made.all_modes[0], told), made.cluster.workers)
    found = [line.label for line in lines if line.cells]
    units = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
    ordered = sorted(told, key=lambda row: row.step)
    assert len(found) == len(ordered)
    for when, row in zip(found, ordered, strict=True):
        match = re.fullmatch(r"(?:([\d.]+) to )?([\d.]+) ([mun]?s)", when)
        assert match is not None
        decimals = len(match[2].partition(".")[2])
        half = 0.5000001 * units[match[3]] / 10**decimals
        assert abs(float(match[2]) * units[match[3]] - row.end) <= half
        begin = float(match[1] or match[2]) * units[match[3]]
        assert abs(begin - row.begin) <= half


class TestSteps:
    def test_steps_that_overlap_say_which_one_it_is(self) -> None:
        slow = "cluster.slow_workers=[{rank: 2, factor: 3}]"
        made = acting(
            "on_read", "sum", ["compute", *WRITE], (), slow, "program.steps=2",
            "cluster.compute={kind: constant, value: 10 ms}",
        )  # fmt: skip
        found = page(made)
        # Replicas 0 and 1 are done with both steps before replica 2 is with its first.
        start = found.index("steps 1 and 2, which overlap")
        assert [re.sub(" {2,}", "  ", line) for line in found[start + 1 : start + 9]] == [
            " 0.1 to 10.1 ms  0, 1  (step 1) compute for 10 ms",
            "  10.1 ms  0, 1  (step 1) add 3 | 1, each to its own copy  3 | 1 | 0",
            "10.1 to 20.1 ms  0, 1  (step 2) compute for 10 ms",
            "  20.1 ms  0, 1  (step 2) add 3 | 1, each to its own copy  6 | 2 | 0",
            " 0.1 to 30.1 ms  2  (step 1) computes for 30 ms",
            "  30.1 ms  2  (step 1) adds 2 to its own copy  6 | 2 | 2",
            "30.1 to 60.1 ms  2  (step 2) computes for 30 ms",
            "  60.1 ms  2  (step 2) adds 2 to its own copy  6 | 2 | 4",
        ]

    def test_what_is_left_out_is_said(self) -> None:
        made = acting("on_read", "sum", ["add, value: 1"], (), "program.steps=3")
        assert "== not shown ==" not in "".join(page(made))
        assert page(made, steps=1)[-1] == "Steps 2 to 3: --steps 3 shows them all."
        assert page(made, steps=2)[-1] == "Step 3: --steps 3 shows them all."
        drawn = scenario(
            "replications=4", "cluster.compute={kind: exponential, mean: 1 ms}",
            "program.replicas=[{kind: compute}, {kind: assign, variable: x, value: 1}]",
        )  # fmt: skip
        assert page(drawn)[-1] == "All replications but the first of 4."
        varied = acting(
            "on_read", "sum", ["add, value: 1"], ["read"], "vary={reads_per_write: [0, 1]}"
        )
        assert page(varied)[-1] == "The program at other ratios (vary): see varsim run."

    def test_the_whole_run_costs_what_run_says(self) -> None:
        made = acting("on_write", "sum", WRITE, (), "program.steps=2")
        # Two all-reduces of 200.128 us, 4 messages of 4 B each.
        assert page(made)[-2:] == [
            "After the variables were created, 2 steps took 400.3 us (200.1 us per step) and",
            "sent 8 messages, 32 B in all.",
        ]
        assert (traced(made).end - traced(made).began, traced(made).moved) == (400_256, 32)


class TestModes:
    def test_some(self) -> None:
        made = scenario("modes=[on_read, on_write]", "program.replicas=[{kind: read, variable: x}]")
        headings = [line for line in page(made) if line.startswith("==")]
        assert [line.split()[1] for line in headings] == ["on_read", "on_write"]
        (heading,) = [line for line in page(made, modes=["on_write"]) if line.startswith("==")]
        assert heading.split()[1] == "on_write"

    def test_as_written(self) -> None:
        made = scenario(
            "modes=[]",
            "variables=[{name: x, synchronization: on_read}, {name: y, synchronization: on_write}]",
            "program.replicas=[{kind: assign, variable: x, value: 1}, "
            "{kind: assign, variable: y, value: 1}]",
        )
        found = page(made, modes=["as written"])
        assert any(line.startswith("== as written ==") for line in found)
        assert "variable   x (on_read in every mode): one float32 (4 B), starts as 0;" in found

    def test_an_unknown_one_is_refused(self) -> None:
        made = acting("on_read", "sum", WRITE)
        with pytest.raises(ScenarioError) as caught:
            page(made, modes=["on_write"])
        assert str(caught.value) == "--mode on_write: error: this scenario has: on_read"


class TestArrays:
    def test_of_equal_elements_one_is_shown(self) -> None:
        found = "\n".join(page(acting("on_read", "mean", WRITE, ["read"], "variables.0.shape=[5]")))
        assert "All elements of x are equal at all times: one number stands for them." in found
        assert "reads 2 = (3 + 1 + 2) / 3, the mean of" in found

    def test_of_others_the_first_and_the_average(self) -> None:
        drawn = ["assign, value: {kind: normal, standard_deviation: 1}"]
        made = acting("on_read", "mean", drawn, ["read"], "variables.0.shape=[50]")
        found = page(made)
        assert "Of x the first elements are shown, and the average of all." in found
        (row, _) = rows(made)
        assert any(line.endswith("copies: unchanged") for line in found)
        first, mean = row.copies[1].first, row.copies[1].mean
        assert any(
            line.strip() == f"1: [{first[0]:.4g}, {first[1]:.4g}, ...], average {mean:.4g}"
            for line in found
        )


def test_a_scale_tells_times_apart() -> None:
    assert Scale.of([0, 50_064, 100_128]) == Scale(1000, "us", 1)
    assert Scale.of([0, 5_000_000, 7_000_000]) == Scale(10**6, "ms", 0)
    assert Scale.of([0, 5_000_000, 5_010_000]) == Scale(10**6, "ms", 2)
    assert Scale.of([0, 5_000_000, 5_000_010]).decimals == 3  # and no more
    assert Scale.of([0]) == Scale(1, "ns", 0)
    assert Scale(1000, "us", 1).span(50_064, 100_128) == "50.1 to 100.1 us"
    assert Scale(1000, "us", 1).span(50_064, 50_065) == "50.1 us"


def test_formulas_and_quantities_stay_in_one_piece() -> None:
    assert flow("their sum 6 = 3 + 1 + 2 is added", 17) == [
        "their sum", "6 = 3 + 1 + 2 is", "added"
    ]  # fmt: skip
    assert flow("it took 50.1 us", 13) == ["it took", "50.1 us"]
    assert flow("1 + 2 + 3 + 4 + 5", 9) == ["1 + 2 + 3", "+ 4 + 5"]  # but for what never fits


class TestCommand:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "told.yaml"
        path.write_text(
            "# Why?\n" + TEXT.replace("replicas: []", "replicas: [{kind: read, variable: x}]")
        )
        return path

    def test_it_prints_the_page(self, file: Path) -> None:
        done = CliRunner().invoke(cli.app, ["explain", str(file)])
        assert done.exit_code == 0, done.stderr
        made = scenario("program.replicas=[{kind: read, variable: x}]")
        assert done.stdout.splitlines() == page(made)

    def test_options(self, file: Path) -> None:
        options = ["--steps", "1", "--mode", "none", "--set", "modes=[on_read, none]"]
        done = CliRunner().invoke(
            cli.app, ["explain", str(file), *options, "--set", "program.steps=2", "--format", "md"]
        )
        assert done.exit_code == 0, done.stderr
        assert "## none" in done.stdout
        assert "## on_read" not in done.stdout
        assert "Step 2: --steps 2 shows them all." in done.stdout

    @pytest.mark.parametrize(
        ("columns", "width"), [("30", 40), ("60", 60), ("90", 90), ("300", 100)]
    )
    def test_as_wide_as_the_terminal(
        self, file: Path, monkeypatch: pytest.MonkeyPatch, columns: str, width: int
    ) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        done = CliRunner().invoke(cli.app, ["explain", str(file)])
        assert max(map(len, done.stdout.splitlines())) == width

    def test_training_scenarios_are_explained_otherwise(self) -> None:
        path = SCENARIOS / "slow_worker.yaml"
        arguments = ["explain", str(path), "--strategy", "on_write", "--quiet"]
        done = CliRunner().invoke(cli.app, arguments)
        assert done.exit_code == 0
        assert done.stdout.startswith(
            "Mirrored all-reduce (on_write) is slow because of stragglers (worker 3)"
        )
        with pytest.raises(ScenarioError, match="compares training strategies"):
            explanation(load_scenario(path), str(path))

    def test_errors_are_one_line(self, file: Path) -> None:
        long = ["--set", "program.steps=100000", "--set", "cluster.workers=5"]
        for options, said in (
            (["--mode", "foo"], "--mode foo: error: this scenario has: on_read"),
            (
                long,
                f"{file}: error: 500,000 reads and writes are too many to be told one by one: "
                "lower program.steps, or cluster.workers",
            ),
        ):
            done = CliRunner().invoke(cli.app, ["explain", str(file), *options])
            assert (done.exit_code, done.stdout) == (2, "")
            assert done.stderr == f"{said}\n"
