"""varsim calibrate FILE...: what it prints can be pasted, and simulates what was measured."""

import gzip
import json
import math
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.calibration.nccl_output import devices, table
from tests.seams import app as cli
from tests.seams import load_scenario, load_text, simulate, stream
from varsim import Scenario

DATA = Path(__file__).parent.parent / "data" / "calibration"
TRACES = (DATA / "kineto_rank0.json", DATA / "kineto_rank1.json")
REST = """
name: pasted
replications: 1
workload:
  problem: {kind: timing, size: SIZE B}
  batch_size: 1
strategies: [{kind: STRATEGY}]
stop: {global_steps: 2}
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["calibrate", *map(str, arguments)])


def printed(*arguments: object) -> str:
    result = invoke(*arguments, "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def refusal(*arguments: object) -> list[str]:
    result = invoke(*arguments, "--quiet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()


def pasted(fragment: str, workers: int, size: float = 4, strategy: str = "on_write") -> str:
    """A scenario with a fragment in it; what the fragment does not say is filled in."""
    more = f"  workers: {workers}\n"
    if "network:" not in fragment:
        more += "  network: {kind: star, bandwidth: 1 GB/s, latency: 1 us}\n"
    if "compute:" not in fragment:
        more += "  compute: {kind: constant, value: 1 ms}\n"
    rest = REST.replace("SIZE", f"{size:.0f}").replace("STRATEGY", strategy)
    return fragment.replace("cluster:\n", f"cluster:\n{more}") + rest


def scenario(text: str) -> Any:
    found = load_text(text, "pasted.yaml")
    assert isinstance(found, Scenario)
    return found


def step_time(text: str) -> float:
    """Seconds from the first update to the second."""
    first, second = simulate(scenario(text)).steps["time_s"]
    return float(second - first)


def step_times(steps: int, workers: int = 1, factor: float = 1.0, first: float = 1.0) -> str:
    """A CSV: lognormal around 0.1 s; the last worker is slower, the first step longer."""
    lines = ["worker,step,seconds"]
    for worker in range(workers):
        draw = stream(9, 0, "compute", worker).standard_normal(steps)
        for step, value in enumerate(draw.tolist()):
            time = 0.1 * math.exp(0.2 * value) * (factor if worker == workers - 1 else 1)
            lines.append(f"{worker},{step},{time * (first if step == 0 else 1):.6f}")
    return "\n".join(lines) + "\n"


def measured(text: str) -> list[tuple[int, float]]:
    """Sizes (bytes) and out-of-place times (s) of a table of nccl-tests."""
    rows = [line.split() for line in text.splitlines() if re.match(r" *\d+ +\d+ +float", line)]
    return [(int(row[0]), float(row[5]) / 1e6) for row in rows]


class TestNetwork:
    def test_simulating_the_fragment_gives_the_measured_times(self) -> None:
        """The point of it: what was measured of an all-reduce is what on_write takes."""
        file = DATA / "all_reduce_16.txt"
        fragment = printed(file)
        rows = measured(file.read_text())

        for row in rows[::3]:
            simulated = step_time(pasted(fragment, 16, row[0])) - 1e-3
            assert simulated == pytest.approx(row[1], rel=0.0125), "1 % is noise"

    @pytest.mark.parametrize("ranks", [3, 8])
    def test_without_noise_they_are_met_to_the_digits_printed(self, ranks: int) -> None:
        text = "./all_reduce_perf\n" + devices(ranks) + table(ranks, 40e-6, 3e9)
        Path("out.txt").write_text(text)
        fragment = printed("out.txt")

        for row in measured(text)[::6]:
            simulated = step_time(pasted(fragment, ranks, row[0])) - 1e-3
            assert simulated == pytest.approx(row[1], rel=2e-4)

    def test_messages_between_hosts_take_what_was_measured(self) -> None:
        Path("p2p.csv").write_text("bytes,seconds\n1000,0.002\n1000000,0.003\n4000000,0.006\n")
        fragment = printed("p2p.csv")

        # A worker alone on parameter servers: it reads 1 MB, computes 1 ms, sends 1 MB.
        assert step_time(pasted(fragment, 1, 1_000_000, "none")) == pytest.approx(0.007, rel=0.01)

    def test_json_of_nccl_tests(self) -> None:
        network = scenario(pasted(printed(DATA / "all_gather_8.json"), 8)).cluster.network

        assert network.worker_rate == pytest.approx(12e9, rel=0.01)
        assert network.delay == pytest.approx(8e-6, rel=0.01)

    def test_where_no_line_is_right_for_all_sizes_one_has_to_be_asked_for(self) -> None:
        rows = ["bytes,time_us"]
        for power in range(6, 27):
            size = 2**power
            us = 5 + size / 1e3 if size < 2**17 else 300 + size / 20e3
            rows.append(f"{size},{us:.4f}")
        Path("p2p.csv").write_text("\n".join(rows) + "\n")

        (line,) = refusal("p2p.csv")
        assert line.startswith("varsim: no latency and bandwidth are right for all sizes (")
        assert line.endswith("% off): give --size, that of your messages")
        large, small = (printed("p2p.csv", "--size", size) for size in ("4 MB", "10 kB"))
        assert "network: {kind: star, bandwidth: 20 GB/s, latency: 300 us}" in large
        assert "network: {kind: star, bandwidth: 1 GB/s, latency: 5 us}" in small
        # From an eighth of the size to eight times it.
        assert "a line for 524288 B to 16777216 B: median error 0.00 %, worst 0.00 %" in large
        assert [text.count("(not its sizes)") for text in (large, small)] == [15, 15]

    def test_sizes_whose_times_do_not_grow_have_no_bandwidth(self) -> None:
        rows = [f"{2**power},{100 - power * 1e-3}" for power in range(3, 12)]
        rows += [f"{2**power},{500 + 2**power / 1e3}" for power in range(16, 27)]
        Path("p2p.csv").write_text("bytes,time_us\n" + "\n".join(rows) + "\n")

        assert refusal("p2p.csv", "--size", "100 B") == [
            "varsim: the times do not grow with the size around 100 B: no bandwidth is seen; use "
            "larger sizes"
        ]

    def test_files_of_different_ranks_are_fitted_together(self) -> None:
        for ranks in (4, 16):
            text = "./all_reduce_perf\n" + devices(ranks) + table(ranks, 10e-6, 5e9)
            Path(f"{ranks}.txt").write_text(text)
        network = scenario(pasted(printed("4.txt", "16.txt"), 2)).cluster.network

        assert network.worker_rate == pytest.approx(5e9, rel=1e-3)
        assert network.delay == pytest.approx(10e-6, rel=1e-3)

    def test_one_size_is_said_to_tell_no_latency(self) -> None:
        Path("p2p.csv").write_text("bytes,seconds\n1000,0.001\n")
        text = printed("p2p.csv")

        assert "network: {kind: star, bandwidth: 1 MB/s, latency: 0 s}" in text
        assert "one size cannot tell latency from bandwidth" in text
        scenario(pasted(text, 2))

    def test_times_that_never_grow_are_refused(self) -> None:
        Path("p2p.csv").write_text("bytes,seconds\n1000,0.002\n2000,0.001\n")

        assert refusal("p2p.csv") == [
            "varsim: the times do not grow with the size: no bandwidth is seen; use larger sizes"
        ]


class TestCompute:
    def test_a_law_with_slow_workers_and_warm_up(self) -> None:
        Path("steps.csv").write_text(step_times(400, 4, factor=1.5, first=6))
        text = printed("steps.csv")
        cluster = scenario(pasted(text, 4)).cluster

        assert cluster.compute.kind == "lognormal"
        assert cluster.compute.sigma == pytest.approx(0.2, rel=0.05)
        assert cluster.compute.mean == pytest.approx(0.1 * math.exp(0.02), rel=0.02)
        (slow,) = cluster.slow_workers
        assert (slow.rank, slow.factor) == (3, pytest.approx(1.5, rel=0.04))
        assert "left out, to warm up: the first 1 step of each worker" in text
        assert "overheads: {first_iteration: " in text
        assert "99 % interval" in text

    def test_what_no_family_meets_is_played_from_the_file(self) -> None:
        lines = [
            f"{w},{0.1 + 1e-5 * s + 0.4 * ((s + 18 * w) % 37 == 0):.6f}"
            for w in (0, 1)
            for s in range(500)
        ]
        Path("steps.csv").write_text("worker,seconds\n" + "\n".join(lines) + "\n")
        text = printed("steps.csv")
        Path("pasted.yaml").write_text(pasted(text, 2))
        found: Any = load_scenario(Path("pasted.yaml"))

        assert "compute: {kind: trace, file: 'steps.csv', replay: resample}" in text
        assert "no family has p50, p90 and p99 within 10 %" in text
        assert isinstance(found, Scenario)
        assert found.cluster.compute.kind == "trace"
        assert len(found.cluster.compute.seconds[0]) == 500

    def test_workers_are_ranks_from_0_whatever_the_file_calls_them(self) -> None:
        columns = [step_times(50).split("\n")[1:51] for _ in range(3)]
        rows = [[line.split(",")[2] for line in column] for column in columns]
        rows[2] = [f"{2 * float(time):.6f}" for time in rows[2]]
        lines = [",".join(times) for times in zip(*rows, strict=True)]
        Path("steps.csv").write_text("\n".join(["rank1_s,rank2_s,rank3_s", *lines]))
        text = printed("steps.csv")

        assert "workers 1, 2, 3 of the file are ranks 0 to 2 here" in text
        assert [one.rank for one in scenario(pasted(text, 3)).cluster.slow_workers] == [2]

    def test_few_steps_stand_in_the_fragment(self) -> None:
        Path("steps.csv").write_text("worker_0_ms,worker_1_ms\n100,120\n101,119\n")
        text = printed("steps.csv")
        law = scenario(pasted(text, 2)).cluster.compute

        assert law.kind == "trace"
        assert law.seconds == ((0.1, 0.101), (0.12, 0.119))
        assert "from steps.csv: 2 steps of 2 workers" in text
        assert "fewer than 10 times lie beyond p50, p90, p99, p99.9" in text

    def test_out_writes_the_times_beside(self) -> None:
        times = "\n".join(f"{100 + 1e-4 * s + 400 * (s % 37 == 0):.4f}" for s in range(30_000))
        Path("steps.csv").write_text(f"time_ms\n{times}\n")
        result = invoke("steps.csv", "--out", "part.yaml")

        assert result.stdout == "written: part.csv\nwritten: part.yaml\n"
        fragment = Path("part.yaml").read_text()
        Path("pasted.yaml").write_text(pasted(fragment, 1))
        found: Any = load_scenario(Path("pasted.yaml"))
        assert isinstance(found, Scenario)
        assert found.cluster.compute.kind == "trace"
        assert len(found.cluster.compute.seconds[0]) == 10_000
        assert "of 30000 each worker's first 10000 are played" in fragment

    def test_out_does_not_overwrite_what_was_measured(self) -> None:
        Path("steps.csv").write_text("seconds\n1\n2\n")

        assert refusal("steps.csv", "--out", "steps.yaml") == [
            "varsim: steps.csv is one of the measurements and is not overwritten: "
            "give another --out"
        ]
        assert refusal("steps.csv", "--out", "steps.csv") == [
            "varsim: steps.csv is one of the measurements and is not overwritten: "
            "give another --out"
        ]
        assert refusal("steps.csv", "--out", "new.csv") == [
            "varsim: what is written is YAML: not new.csv, but new.yaml"
        ]
        assert Path("steps.csv").read_text() == "seconds\n1\n2\n"

    def test_steps_that_are_like_the_one_before(self) -> None:
        spells = ([0.1] * 80 + [0.3] * 20) * 5
        Path("steps.csv").write_text("worker,seconds\n" + "".join(f"0,{t}\n" for t in spells))
        text = printed("steps.csv")

        assert "a step is like the one before it (autocorrelation 0.9" in text
        assert "replay: cycle" in text


class TestTraces:
    def test_network_and_compute(self) -> None:
        text = printed(*TRACES)
        cluster = scenario(pasted(text, 2)).cluster

        # Of two ranks 2 latencies and the size: 5 ms for 1 MB, 16 ms for 4 MB.
        assert cluster.network.worker_rate == pytest.approx(3e6 / 0.011, rel=1e-4)
        assert cluster.network.delay == pytest.approx((0.005 - 0.011 / 3) / 2, rel=1e-4)
        assert cluster.compute.kind == "trace"
        assert cluster.compute.seconds == ((0.087,) * 4, (0.0885,) * 4)
        assert "NCCL's 23.5 ms, of which 18 ms beside others, 5.5 ms alone" in text

    def test_compute_is_printed_where_no_bandwidth_can_be_seen(self) -> None:
        names = []
        for trace in TRACES:
            names.append(f"smaller_{trace.name}")
            Path(names[-1]).write_text(trace.read_text().replace(": 1000000,", ": 100000,"))
        text = printed(*names)

        assert "# network: left out: the times do not grow with the size: no bandwidth" in text
        assert "  compute:" in text
        assert "  network:" not in text
        assert refusal(*names, "--size", "1 MB") == [
            "varsim: the times do not grow with the size around 1000000 B: no bandwidth is seen; "
            "use larger sizes"
        ]

    def test_packed_or_not_is_the_same(self) -> None:
        shutil.copy(TRACES[0], "plain.json")
        Path("packed.json").write_bytes(gzip.compress(TRACES[0].read_bytes()))

        assert printed("packed.json").replace("packed.json", "plain.json") == printed("plain.json")


class TestRefusals:
    def test_what_is_not_recognised(self) -> None:
        Path("a.txt").write_text("hello\nworld\n")
        Path("b.json").write_text('{"a": 1}')
        Path("c.csv").write_text("\n \n")
        Path("d.json").write_text('{"traceEvents": [')
        Path("e.bin").write_bytes(b"a\nb\xff\xfe")
        Path("f.gz").write_bytes(gzip.compress(b"bytes,seconds\n" * 1000)[:-9])
        said = refusal("a.txt", "b.json", "c.csv", "d.json", "e.bin", "f.gz", "g.txt", ".")
        accepted = (
            "accepted are: output of nccl-tests (text or -J); CSV of bytes,seconds; CSV of step "
            "times (worker,step,seconds); Chrome trace of torch.profiler (.json or .json.gz)"
        )

        assert said[:5] == [
            f"varsim: a.txt: not recognised; {accepted}; --as says which it is",
            f"varsim: b.json: JSON, but neither traceEvents nor results in it; {accepted}",
            f"varsim: c.csv: the file is empty; {accepted}",
            "varsim: d.json, line 1, column 18: broken JSON: Expecting value",
            "varsim: e.bin, line 2: not UTF-8 text",
        ]
        assert said[5].startswith("varsim: f.gz: packed, but broken: ")
        assert said[6] == "varsim: g.txt: cannot be read: No such file or directory"
        assert said[7].endswith(": a folder; name its files (or --runs for recordings)")
        assert len(said) == 8

    def test_a_form_that_is_forced_but_wrong(self) -> None:
        Path("a.csv").write_text("bytes,seconds\n1,1\n")

        assert refusal("a.csv", "--as", "kineto") == [
            "varsim: a.csv: not a Chrome trace: it is not JSON"
        ]
        assert refusal("a.csv", "--as", "nccl") == [
            "varsim: a.csv: no table of nccl-tests in it (size count type ...)"
        ]
        assert refusal(TRACES[0], "--as", "csv")[0].startswith(
            "varsim: kineto_rank0.json: not CSV of bytes,seconds, but Chrome trace"
        )
        Path("b.csv").write_text("bytes,colour\n1,red\n")
        assert refusal("b.csv", "--as", "steps")[0].startswith(
            "varsim: b.csv, line 1: where is the time? columns may be"
        )

    def test_options_without_effect(self) -> None:
        Path("steps.csv").write_text("seconds\n1\n2\n")

        assert "--ranks has no effect: there are no files" in " ".join(refusal("--ranks", "4"))
        said = " ".join(refusal("steps.csv", "--run", "one"))
        assert "--run has no effect: files are measured, not recorded runs" in said
        assert refusal("steps.csv", "--size", "1 MB") == [
            "varsim: --size has no effect: no transfers were measured"
        ]
        assert "--collective has no effect" in refusal("steps.csv", "--collective", "reduce")[0]
        assert "--unit has no effect" in refusal("steps.csv", "--unit", "ms")[0]
        assert "is not one of all_reduce" in " ".join(refusal("steps.csv", "--collective", "x"))
        assert "size" in " ".join(refusal("steps.csv", "--size", "0 B"))
        assert "unit" in " ".join(refusal("steps.csv", "--size", "12"))

    def test_a_file_twice_and_two_kinds_of_steps(self) -> None:
        Path("steps.csv").write_text("seconds\n1\n2\n")

        assert refusal("steps.csv", "./steps.csv") == ["varsim: a file is given twice"]
        assert refusal("steps.csv", *TRACES) == [
            "varsim: step times from traces and from tables: calibrate one at a time"
        ]

    def test_damaged_files_are_never_a_traceback(self) -> None:
        """Letters changed, cut out and put in at random: read, or refused in lines."""
        draw = random.Random(4)
        ends = set()
        for file in (*DATA.glob("*.txt"), DATA / "all_gather_8.json", TRACES[0]):
            whole = file.read_text()
            for _ in range(40):
                text = list(whole)
                for _ in range(draw.choice((1, 3, 30))):
                    at = draw.randrange(len(text))
                    text[at] = draw.choice(
                        ("", "-", "9", "x", " ", "\n", '"', "}", "[", "nan", "0")
                    )
                Path(file.name).write_text("".join(text)[: draw.choice((None, 2000, 5000))])
                result = invoke(file.name, "--quiet")
                ends.add(result.exit_code)
                assert result.exit_code in (0, 2), result.output
                assert all(line.startswith("varsim: ") for line in result.stderr.splitlines())
        assert ends == {0, 2}


def test_progress_is_told_unless_quiet() -> None:
    result = invoke(DATA / "all_reduce_16.txt")

    assert result.stderr == "varsim: all_reduce_16.txt: output of nccl-tests (text or -J)\n"


def test_the_same_files_give_the_same_bytes() -> None:
    first, second = (
        printed(*TRACES, DATA / "all_reduce_16.txt", "--size", "4 MB") for _ in range(2)
    )

    assert first == second
    assert str(DATA) not in first, "names only, no paths"


def test_json_is_not_confused_by_its_beginning() -> None:
    Path("a.json").write_text("\ufeff\n " + json.dumps({"traceEvents": []}), encoding="utf-8")

    assert refusal("a.json") == [
        "varsim: a.json: no ProfilerStep#n in it; call prof.step() after every step, with a "
        "schedule"
    ]
