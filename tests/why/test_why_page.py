"""What is printed and written: the cause first, numbers that add up, the same bytes every time."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.building import scenario, slow
from tests.why.hand import saturated, timed
from varsim.cli import app as cli
from varsim.report.files.keeping import put_report
from varsim.report.plots.figure import style
from varsim.report.plots.why import PLOT, draw, legend, seconds, title
from varsim.report.render import render
from varsim.report.why import report
from varsim.report.words import why as words
from varsim.report.words.chain import chain
from varsim.scenario.loading import load_scenario
from varsim.scenario.training import Scenario
from varsim.study.verdict import CLOSE, EQUAL
from varsim.study.why.account import Account, account, why

SCENARIOS = Path(__file__).parent.parent.parent / "scenarios"
BOTTLENECK = ["explain", str(SCENARIOS / "server_bottleneck.yaml"), "--strategy", "1 server"]


def explained(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def told(made: Scenario) -> Account:
    return account(made, 0)


class TestTheAnswer:
    def test_a_server_bottleneck_is_named_first_with_the_gain_of_removing_it(self) -> None:
        text = " ".join(explained(*BOTTLENECK).split())
        assert text.startswith("'1 server' is slow because of the server's port (ps 0: ")
        gain = re.search(r"With free servers: ([0-9.]+) times as fast \(", text)
        assert gain is not None
        assert 5 < float(gain[1]) < 7

    def test_of_the_saturated_port_by_hand(self) -> None:
        # Reads keep the port busy from the start to the end: 42 of them in 4.2 s. With all but the
        # port free, it is the port alone: 100 ms each, the first update at 300 ms.
        assert words.answer(told(saturated())) == (
            "Async PS (none) is slow because of the bandwidth of the workers' links: 200 ms of the "
            "420 ms of an iteration (48 %); next: the server's port (ps 0: 100 % of the bandwidth "
            "used), 29 %. With infinite bandwidth everywhere: 4.20 times as fast; "
            "everywhere but at the servers' ports: as fast as now."
        )

    def test_of_a_straggler(self) -> None:
        made = scenario({"kind": "on_write"}, cluster={"slow_workers": (slow(2, 4.0),)})
        assert words.answer(told(made)) == (
            "Mirrored all-reduce (on_write) is slow because of stragglers (worker 2): 300 ms of "
            "the 400 ms of a step "
            "(75 %). Without stragglers: 4.00 times as fast."
        )

    def test_of_the_uplinks_of_racks(self) -> None:
        # 100 ms in the racks, then 400 ms over the uplinks, and 100 ms without them (see
        # test_counterfactuals): they are busy for 400 ms of a step of 600 ms.
        racks = {"kind": "racks", "hosts_per_rack": 2, "oversubscription": 4.0}
        network = {"bandwidth": 1e9, "latency": 0.0, **racks}
        described = {"kind": "on_write", "collective": "recursive_doubling"}
        made = timed(described, cluster={"workers": 4}, network=network)
        assert words.answer(told(made)).startswith(
            "Mirrored all-reduce (on_write) is slow because of the uplinks of racks (links of "
            "racks 0 and 1, sending: 67 % of the bandwidth used): 300 ms of the 600 ms of a step "
            "(50 %);"
        )

    @pytest.mark.parametrize(
        ("strategy", "said"),
        [
            ({"kind": "none"}, "nobody waits for it here."),
            ({"kind": "ssp", "staleness": 0}, "workers wait for others "),
            ({"kind": "k_async", "k": 2}, "workers wait for others "),
            ({"kind": "local_sgd", "period": 8}, "others wait for it only where copies meet."),
            ({"kind": "gossip"}, "only its neighbours wait for it, and theirs a step later."),
            ({"kind": "on_write"}, "waiting for all but one worker would take "),
        ],
    )
    def test_who_waits_for_stragglers(self, strategy: dict[str, Any], said: str) -> None:
        law = {"kind": "uniform", "low": 0.1, "high": 0.3}
        made = scenario(
            strategy, cluster={"workers": 4, "compute": law}, stop={"global_steps": 200}
        )
        assert f"as the mean; {said}" in words.straggling(told(made))

    @pytest.mark.parametrize(
        ("strategy", "said"),
        [
            (
                {"kind": "easgd", "period": 1},
                "computes 100 ms -> reads the centre 100 ms -> pushes the difference 100 ms",
            ),
            (
                {"kind": "gossip", "mode": "asynchronous"},
                "gets the mean 100 ms -> computes 100 ms -> exchanges copies 100 ms",
            ),
            (
                {"kind": "gossip", "mode": "push_sum"},
                "exchanges copies 100 ms -> worker 0 computes 100 ms",
            ),
        ],
        ids=["centre", "partner", "peer"],
    )
    def test_what_copies_send_by_name(self, strategy: dict[str, Any], said: str) -> None:
        # 40 bytes take 100 ms; a worker beside a straggler that is never there has the links.
        made = scenario(
            strategy,
            cluster={"workers": 2, "slow_workers": (slow(1, 1.0 if said[0] == "e" else 1e3),)},
            network={"bandwidth": 400.0, "latency": 0.0, "sharing": "fair"},
            stop={"time": 4.0},
        )
        assert said in chain(told(made))

    def test_of_who_computes_all_the_time(self) -> None:
        assert words.answer(told(scenario({"kind": "single"}))) == (
            "One worker (single) is limited by computing: 100 ms of the 100 ms of a step (100 %). "
            "Nothing else is worth removing."
        )

    def test_computing_does_not_limit_who_gains_more_elsewhere(self) -> None:
        """One gradient of four is enough: the first to come in computes for less than the mean."""
        base = scenario({"kind": "backup_workers", "replicas_to_aggregate": 1})
        star = {"kind": "star", "bandwidth": 3.3e6, "latency": 1e-3}
        cluster = {
            "workers": 4,
            "compute": {"kind": "exponential", "mean": 0.05},
            "network": {**star, "slow_links": ({"rank": 2, "factor": 10.0},)},
        }
        workload = {"problem": {"kind": "timing", "size": 33_000}, "batch_size": 8}
        changes = {"cluster": cluster, "workload": workload, "stop": {"global_steps": 21}}
        made = Scenario.model_validate({**dict(base), **changes, "seed": 1})
        said = words.answer(told(made))
        assert said.startswith(
            "Sync PS with backup workers is not limited by computing, though that is the largest "
            "part: 50 ms "
        )
        assert re.search(
            r"Most would be gained with infinite bandwidth everywhere: 4\.[0-9]+ times as fast; "
            r"with instant compute: 1\.[0-9]+ times as fast\.$",
            said,
        )

    def test_a_gain_that_is_none_is_not_told_of(self) -> None:
        """A latency of 0.1 % of a step is not worth removing, sure as it is."""
        wire = {"bandwidth": 1e18, "latency": 25e-6, "sharing": "first_come"}
        made = scenario({"kind": "on_write"}, network=wire)
        found = told(made)
        (gain,) = (gain for gain in found.gains if gain.key == "latency")
        assert 1 < gain.speedup.mean < 1.01
        assert found.faster(gain) == EQUAL
        assert words.answer(found).endswith("Nothing else is worth removing.")

    def test_who_waits_for_a_number_of_others_does_not_compute_all_the_time(self) -> None:
        """Updates of 3 gradients of 4 workers that compute for 100 ms: 4/3 of that a gradient."""
        made = scenario({"kind": "k_async", "k": 3}, cluster={"workers": 4}, stop={"time": 40.0})
        assert words.answer(told(made)) == (
            "K-async SGD is limited by computing: 133 ms of the 133 ms of an iteration (100 %); "
            "workers compute 75 % of the time and wait for others 25 %. "
            "Nothing else is worth removing."
        )

    def test_what_may_be_gained_is_too_close_to_call(self) -> None:
        """Two replications of few steps: without variance maybe much faster, maybe not at all."""
        law = {"kind": "lognormal", "mean": 0.1, "sigma": 0.6}
        cluster = {"workers": 2, "compute": law}
        found = told(scenario({"kind": "on_write"}, cluster=cluster, replications=2))
        gain = found.gain("variance")
        assert gain is not None
        assert found.faster(gain) == CLOSE
        assert gain.speedup.mean > 1.1
        said = words.answer(found)
        assert "Most may be gained if every step took its mean: 1." in said
        assert said.endswith(", too close to call.")

    def test_of_who_stands_still(self) -> None:
        made = scenario(
            {"kind": "on_write"},
            events=({"at": 0.05, "kill": {"worker": 1}},),
            stop={"time": 10.0},
        )
        found = why(made)
        said = report(found, figure=False)
        assert render(said, "table", width=80).startswith(
            "Mirrored all-reduce (on_write) deadlocked"
        )
        assert json.loads(render(said, "json"))["strategies"][0]["stuck"] is True


class TestTheChain:
    def test_names_who_did_what_for_how_long(self) -> None:
        made = timed(
            {"kind": "sync_replicas", "replicas_to_aggregate": 3}, stop={"global_steps": 1}
        )
        assert chain(told(made)) == (
            "What a typical step waits for (step 1, 500 ms): worker 2 waits for the server's port "
            "to read 200 ms -> reads the variables 100 ms -> computes 100 ms -> pushes its "
            "gradient 100 ms."
        )

    def test_layers_that_are_gathered_one_by_one_are_counted_not_listed(self) -> None:
        # 40 layers of 1 MB: each is gathered before the forward pass, and again before the backward
        # pass, in which its gradient is scattered. A half goes to the other rank, 0.5 ms. Computing
        # takes 33.3 ms forward and 66.7 ms back, 1.67 ms a layer: the first of which is before any
        # scatter.
        layers = tuple({"backward": 1.0, "size": 1e6} for _ in range(40))
        made = timed(
            {"kind": "on_write", "sharding": "parameters", "bucketing": "layers"},
            problem={"kind": "timing"},
            workload={"batch_size": 1, "optimizer": None, "layers": layers},
            cluster={"workers": 2},
            stop={"global_steps": 1},
        )
        assert chain(told(made)) == (
            "What a typical step waits for (step 1, 160 ms): 41 x all-gather (20.5 ms in all) and "
            "41 x computing (35 ms in all) -> 40 x reduce-scatter (20 ms in all), 39 x all-gather "
            "(19.5 ms in all) and 39 x computing (65 ms in all)."
        )

    def test_buckets_one_after_the_other_are_told_as_one(self) -> None:
        layers = tuple({"backward": 1.0, "size": 1e6} for _ in range(40))
        made = timed(
            {"kind": "on_write", "overlap": True, "bucketing": "layers"},
            problem={"kind": "timing"},
            workload={"batch_size": 1, "optimizer": None, "layers": layers},
            cluster={"compute": {"kind": "uniform", "low": 0.09, "high": 0.11}},
            network={"bandwidth": 1e8, "latency": 0.001},
        )
        said = chain(told(made))
        assert "all-reduce" in said
        assert not re.search("all-reduce [^>]* -> all-reduce", said)
        spans = re.findall(r"([0-9.]+) ms", said)
        assert float(spans[0]) == pytest.approx(sum(map(float, spans[1:])), rel=0.01)

    def test_names_who_comes_last(self) -> None:
        made = scenario({"kind": "on_write"}, cluster={"slow_workers": (slow(2, 4.0),)})
        assert words.spent(told(made)).endswith("Last to arrive: worker 2 in 100 % of them.")


class TestTables:
    def test_parts_add_up_as_printed(self) -> None:
        cluster = {"compute": {"kind": "exponential", "mean": 0.1}}
        network = {"bandwidth": 1e9, "latency": 1e-3}
        found = told(timed("on_write", 7.3e7, cluster=cluster, network=network))
        *rows, whole = [float(time.split()[0]) for _, time, _ in words.parts_as_text(found)]
        assert sum(rows) == pytest.approx(whole, abs=1e-9)

    def test_the_busiest_comes_first(self) -> None:
        assert words.uses_as_text(told(saturated()))[:2] == [
            ("the server's port (ps 0, sending)", "100 %"),
            ("the server's port (ps 0, receiving)", "95 %"),
        ]


class TestJson:
    def test_parts_add_up_to_the_step(self) -> None:
        (found,) = json.loads(explained(*BOTTLENECK, "--format", "json"))["strategies"]
        total = sum(part["seconds"]["mean"] for part in found["parts"])
        assert total == pytest.approx(found["step_time"]["mean"], rel=1e-12)
        assert found["asynchronous"] is True
        assert found["parts"][0]["cause"] == "server"


class TestFiles:
    def test_are_written_the_same_every_time(self, tmp_path: Path) -> None:
        found = why(saturated())
        for name in ("a", "b"):
            put_report(report(found, "Why?"), tmp_path / name)
        names = {"why.html", "why.md", "why.json", "why.png", "why.svg"}
        assert {path.name for path in (tmp_path / "a").iterdir()} == names
        for name in names:
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        html = (tmp_path / "a" / "why.html").read_text()
        assert "<svg" in html
        assert "Why?" in html
        assert "infinite bandwidth everywhere" in html
        assert "![Where the time" in (tmp_path / "a" / "why.md").read_text()

    def test_out_says_where(self, tmp_path: Path) -> None:
        small = Path(__file__).parent.parent / "small.yaml"
        text = explained("explain", str(small), "--out", str(tmp_path / "out"), "--quiet")
        assert text.splitlines()[-1] == f"report: {tmp_path / 'out' / 'why.html'}"


class TestFigure:
    def test_bars_are_as_long_as_the_parts(self) -> None:
        found = why(saturated())
        (made,) = found.accounts
        assert seconds(made) == pytest.approx(
            {"compute": 0.1, "bandwidth": 0.2, "server": 0.12, "rest": 0}, abs=1e-6
        )
        assert [each.get_label() for each in legend(found)] == [
            *("mean compute", "bandwidth of links", "servers (ports, handling)"),
        ]
        with style():
            from varsim.report.plots.figure import panels

            _, (axes,) = panels(PLOT.heights(found))
            draw(found, axes)
        assert [bar.get_width() for bar in axes.patches] == pytest.approx([100, 200, 120])
        assert title(found).startswith(
            "In async PS (none) an iteration takes 420 ms; 48 % of that: "
        )


class TestOptions:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["quickstart.yaml", "--mode", "on_read"], "--mode has no effect"),
            (["quickstart.yaml", "--steps", "3"], "--steps has no effect"),
            (["metric_sum.yaml", "--strategy", "none"], "--strategy has no effect"),
            (["metric_sum.yaml", "--format", "json"], "--format json has no effect"),
            (["metric_sum.yaml", "--out", "x"], "--out has no effect"),
        ],
    )
    def test_of_the_other_kind_of_scenario_are_refused(
        self, arguments: list[str], said: str
    ) -> None:
        file, *rest = arguments
        done = CliRunner().invoke(cli.app, ["explain", str(SCENARIOS / file), *rest])
        assert done.exit_code == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def training(file: Path) -> bool:
    """Whether a file is one scenario of training: no sweep, no plan, no variables."""
    text = file.read_text(encoding="utf-8")
    return not re.search(r"^(sweep|plan|kind):", text, re.M)


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", sorted(filter(training, SCENARIOS.glob("*.yaml"))), ids=lambda path: path.stem
)
def test_every_bundled_scenario_is_explained(file: Path) -> None:
    made = load_scenario(file)
    assert isinstance(made, Scenario)
    found = why(made)
    lines = render(report(found, figure=False), "table", width=80).splitlines()
    assert max(map(len, lines)) <= 100
    for each in found.accounts:
        assert not each.stuck
        assert sum(each.share(part) for part in each.parts) == pytest.approx(1)
        (strategy,) = each.scenario.strategies
        assert any(line.startswith(f"== {strategy.title} ") for line in lines)
