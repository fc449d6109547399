"""What a notebook does with experiments and results: change, draw, walk through, save."""

import pickle
import re
from html import escape, unescape
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from typer.testing import CliRunner

import varsim
from tests.browsing import chromium
from tests.seams import Result, load_scenario
from tests.seams import app as cli
from varsim import Scenario

ROOT = Path(__file__).parent.parent.parent
SMALL = ROOT / "tests" / "small.yaml"


@pytest.fixture(scope="module")
def experiment() -> Scenario:
    loaded = varsim.load(SMALL)
    assert isinstance(loaded, Scenario)
    return loaded


@pytest.fixture(scope="module")
def result(experiment: Scenario) -> Result:
    return experiment.run()


def test_an_experiment_is_shown_as_its_file_and_changed_as_by_set(experiment: Scenario) -> None:
    changed = experiment.replace({"cluster.workers": 5, "cluster.network.latency": 9e-6})
    assert (changed.cluster.workers, experiment.cluster.workers) == (5, 3)
    assert "latency: 9 us" in repr(changed)
    assert varsim.load(repr(changed)) == changed
    with pytest.raises(varsim.ScenarioError, match="unknown key 'worker'; did you mean 'workers'"):
        experiment.replace({"cluster.worker": 5})
    with pytest.raises(varsim.ScenarioError, match="9 has no unit"):
        experiment.replace({"cluster.network.latency": "9"})


@pytest.mark.parametrize("file", [SMALL, ROOT / "scenarios/metric_sum.yaml"], ids=lambda p: p.stem)
def test_a_scenario_is_shown_as_its_file(file: Path) -> None:
    scenario = load_scenario(file)
    assert repr(scenario) == str(scenario) == repr(varsim.load(file))
    assert "latency: " in repr(scenario)
    assert varsim.load(repr(scenario)) == scenario


@pytest.mark.parametrize("file", [SMALL, ROOT / "scenarios/metric_sum.yaml"], ids=lambda p: p.stem)
def test_how_it_begins_is_shown_as_check_prints_it(file: Path) -> None:
    begun = varsim.load(file).check()
    printed = CliRunner().invoke(cli.app, ["check", str(file)], env={"COLUMNS": "100"}).stdout
    assert repr(begun).replace("FILE", str(file)) == printed
    assert repr(pickle.loads(pickle.dumps(begun))) == repr(begun)


def test_plots_are_drawn_by_name(result: Result) -> None:
    assert isinstance(result.plot.throughput(), Axes)
    panels = result.plot.timeline()
    assert [axes.get_ylabel() for axes in panels] == ["worker"] * len(result.strategies)
    assert "staleness" in dir(result.plot)
    with pytest.raises(AttributeError, match="did you mean timeline"):
        _ = result.plot.timelin


def test_the_timeline_is_a_page_of_its_own(result: Result, tmp_path: Path) -> None:
    html = result.timeline()._repr_html_()
    assert html.startswith("<iframe srcdoc=")
    result.timeline().save(tmp_path / "timeline.html")
    page = (tmp_path / "timeline.html").read_text()
    assert page.count("<script") == 3
    assert "script-src 'sha256-" in page
    variables = varsim.run(ROOT / "scenarios/metric_sum.yaml")
    assert "writing variables" in variables.timeline()._repr_html_()
    with pytest.raises(ValueError, match="no timeline of workers"):
        variables.scenario.explain().timeline()


@pytest.mark.slow
@pytest.mark.product
def test_the_frame_of_the_timeline_shows_all_of_it(result: Result, tmp_path: Path) -> None:
    many = varsim.load(SMALL).replace({"cluster.workers": 24}).run()
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!DOCTYPE html>{many.timeline()._repr_html_()}")
    with chromium() as browser:
        shown = browser.new_page(viewport={"width": 900, "height": 900})
        shown.goto(notebook.as_uri())
        story = shown.frame_locator("iframe").locator(".player-story")
        assert story.inner_text().startswith("At 0 s:")
        shown.wait_for_timeout(200)
        frame, told = shown.locator("iframe").bounding_box(), story.bounding_box()
    assert 640 < told["y"] + told["height"] <= frame["y"] + frame["height"]


@pytest.mark.slow
@pytest.mark.product
def test_the_frame_of_the_timeline_ends_where_its_text_does(result: Result, tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!DOCTYPE html>{result.timeline()._repr_html_()}", encoding="utf-8")
    below: dict[int, float] = {}
    high: dict[int, float] = {}
    with chromium() as browser:
        shown = browser.new_page(viewport={"width": 900, "height": 900})
        shown.goto(notebook.as_uri())
        story = shown.frame_locator("iframe").locator(".player-story")
        for width in (900, 420, 901):
            shown.set_viewport_size({"width": width, "height": 900})
            shown.wait_for_timeout(300)
            frame, told = shown.locator("iframe").bounding_box(), story.bounding_box()
            high[width] = frame["height"]
            below[width] = frame["y"] + frame["height"] - told["y"] - told["height"]
    assert all(0 <= one <= 24 for one in below.values()), below
    assert high[901] == high[900] != high[420], "it shrinks again where it is as wide as before"


def test_a_result_is_shown_with_a_row_per_strategy(result: Result) -> None:
    html = result._repr_html_()
    answer, table = html.index(escape(result.answer())[:20]), html.index("<table")
    assert answer < table < html.index(escape(result.notes[0])[:20])
    head = re.findall("<th>(.*?)</th>", html)
    shown = [one for one in head if one in result.report.table.rows]
    assert tuple(shown) == result.report.table.rows


def test_a_table_leaves_out_what_no_strategy_has(result: Result) -> None:
    assert "final loss" in result.table()
    assert "accuracy" not in result.table(), "of a quadratic"


def test_a_misspelt_name_is_answered_with_the_nearest(result: Result) -> None:
    with pytest.raises(
        ValueError, match="no metric 'examples_per_sec'; did you mean examples_per_s"
    ):
        result.estimate("on_write", "examples_per_sec")
    with pytest.raises(ValueError, match="did you mean on_write"):
        result.values("onwrite", "examples_per_s")


def test_a_metric_of_ones_own(result: Result) -> None:
    found = result.measure(lambda trace: trace.global_step)
    assert {name: one.mean for name, one in found.items()} == {
        name: result.estimate(name, "updates").mean for name in result.strategies
    }


@pytest.mark.parametrize("file", [SMALL, ROOT / "scenarios/metric_sum.yaml"], ids=lambda p: p.stem)
def test_what_is_saved_are_the_files_of_the_command(file: Path, tmp_path: Path) -> None:
    page = varsim.run(file).save(tmp_path / "python")
    done = CliRunner().invoke(cli.app, ["run", str(file), "--out", str(tmp_path / "command"), "-q"])
    assert done.exit_code == 0
    assert page == tmp_path / "python" / "report.html"
    ours, theirs = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("python", "command")
    )
    # The command knows the file's question, which stands in its scenario and on its page.
    differ = {name for name in ours | theirs if ours.get(name) != theirs.get(name)}
    assert differ <= {"report.html", "scenario.yaml", "summary.json", "result.json"}


def test_what_came_of_many_runs_is_shown_as_its_command_prints_it(tmp_path: Path) -> None:
    swept = ["cluster.workers=3,4", "replications=1", "stop.global_steps=5"]
    shown = {
        "sweep": (varsim.sweep(SMALL, swept), swept, "throughput"),
        "explain": (varsim.explain(SMALL, swept[1:]), swept[1:], "why"),
    }
    for command, (result, changes, plot) in shown.items():
        sets = [word for change in changes for word in ("--set", change)]
        out = [] if command == "explain" else ["--out", str(tmp_path), "--no-plots"]
        wide = {"COLUMNS": "100"}
        done = CliRunner().invoke(cli.app, [command, str(SMALL), *sets, *out], env=wide)
        printed = repr(result)
        assert printed.count("\n") > 5
        first = printed.splitlines()[0].split()
        assert first == done.stdout.split()[: len(first)]
        table = next(part for part in printed.split("\n\n") if "───" in part)
        assert command == "explain" or table in done.stdout
        assert "--set" not in printed, "what is typed in Python is said"
        assert plot in dir(result.plot)


def read(html: str) -> list[str]:
    """The words of HTML, tags apart."""
    return unescape(re.sub("<[^>]*>", " ", html)).split()


def test_a_notebook_shows_what_the_command_prints() -> None:
    small = ["replications=1", "stop.global_steps=5"]
    text = SMALL.read_text().replace("name: async", 'name: "a<b>&c"')
    targets = "targets: {throughput: 1 examples/s}\n"
    plan = f"{text}{targets}plan: {{minimize: workers, space: {{cluster.workers: [3, 4]}}}}\n"
    shown = [
        varsim.plan(plan, small[1:]),
        varsim.explain(ROOT / "scenarios/metric_sum.yaml"),
    ]
    for one in shown:
        html = one._repr_html_()
        assert html.startswith(("<h4>small</h4><p>", "<h4>metric_sum</h4><p>"))
        assert html.count("<table>") == html.count("</table>") > 0
        assert "<b>" not in html
        # All words of the text, whose tables are ruled, and do not say what their rows are.
        text_words = re.sub(r"(?m)[─-]{3,}|^== | =+$|\[[a-i]\]|^.* --all\.$", "", repr(one)).split()
        assert {*text_words} - {*read(html)} == set()
    assert "a&lt;b&gt;&amp;c" in shown[0]._repr_html_()


def test_a_notebook_shows_names_as_they_are() -> None:
    text = SMALL.read_text().replace("name: async", 'name: "a<b>&c"')
    explained = varsim.explain(text, ["replications=1", "stop.global_steps=5"])
    html = explained._repr_html_()
    assert html.startswith("<h4>small</h4><p>")
    assert "<b>" not in html
    assert "<th>a&lt;b&gt;&amp;c</th>" in html


def test_what_is_no_single_scenario_is_shown_in_few_words(result: Result) -> None:
    swept = repr(varsim.load(ROOT / "scenarios/scale_out.yaml"))
    assert "sweep:\n  zip:\n    - cluster.workers: [1, 2, 4" in swept
    assert "bandwidth: 25 Gbit/s" in swept
    planned = repr(varsim.load(ROOT / "scenarios/plan_resnet50.yaml"))
    assert planned.startswith("# the least cost_per_hour over\n# cluster.workers: 8, 9")
    assert len(repr(result.timeline())) < 80


def test_a_string_has_no_colours(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as Jupyter's kernel does
    table = varsim.sweep(SMALL, ["cluster.workers=3,4", "replications=1", "stop.global_steps=5"])
    assert "\x1b" not in repr(table)


def test_two_results_are_compared_pair_by_pair(experiment: Scenario, result: Result) -> None:
    slower = experiment.replace({"cluster.network.bandwidth": "1 Mbit/s"}).run()
    found = varsim.compare(result, slower).ratios()
    assert list(found) == list(result.strategies)
    for name, times in found.items():
        pairs = zip(
            slower.values(name, "examples_per_s"),
            result.values(name, "examples_per_s"),
            strict=True,
        )
        ratios = [above / below for above, below in pairs]
        assert min(ratios) <= times.mean <= max(ratios)
        assert times.mean < 1
    with pytest.raises(ValueError, match="paired by replication: seed is"):
        varsim.compare(result, experiment.replace(seed=99).run())
    with pytest.raises(ValueError, match="no metric 'example'"):
        varsim.compare(result, result, metric="example")


def test_a_curve_over_what_does_not_exist_is_refused(result: Result) -> None:
    with pytest.raises(ValueError, match="no axis 'time'; did you mean time_s"):
        result.loss_curves(by="time")


@pytest.mark.slow
@pytest.mark.product
def test_the_timeline_has_the_theme_of_jupyterlab_or_else_of_the_browser(
    result: Result, tmp_path: Path
) -> None:
    page = tmp_path / "notebook.html"
    page.write_text(f"<body>{result.timeline()._repr_html_()}</body>", encoding="utf-8")
    light, dark = "rgb(255, 255, 255)", "rgb(20, 24, 29)"
    said: list[str] = []
    with chromium() as browser:
        for scheme, own in (("light", light), ("dark", dark)):
            shown = browser.new_page(color_scheme=scheme)
            shown.on("console", lambda message: said.append(message.text))
            shown.on("pageerror", lambda error: said.append(str(error)))
            shown.goto(page.as_uri())
            body = shown.frame_locator("iframe").locator("body")
            canvas = shown.frame_locator("iframe").locator("#player canvas")
            canvas.wait_for()
            drawn = {}
            for told, expected in (("", own), ("true", light), ("false", dark), ("", own)):
                set_to = f"document.body.dataset.jpThemeLight = {told!r}"
                shown.evaluate(set_to if told else "delete document.body.dataset.jpThemeLight")
                shown.wait_for_timeout(50)
                assert body.evaluate("one => getComputedStyle(one).backgroundColor") == expected
                now = canvas.evaluate("one => one.toDataURL()")
                assert drawn.setdefault(expected, now) == now, "drawn anew in these colours"
            assert len(set(drawn.values())) == 2
    assert said == []


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (
            'varsim.load(SMALL).replace({"cluster.netwrk": 5})',
            "ScenarioError: cluster.netwrk=5: error: cluster: unknown key 'netwrk'; "
            "did you mean 'network'?",
        ),
        (
            'varsim.run(SMALL).estimate("async", "example_per_s")',
            "ValueError: no metric 'example_per_s'; did you mean examples_per_s?",
        ),
    ],
)
def test_a_notebook_shows_of_a_misspelt_name_what_is_wrong_and_no_traceback(
    cell: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell(user_ns={"varsim": varsim, "SMALL": SMALL})
    assert shell.run_cell(cell).error_in_exec is not None
    assert capsys.readouterr().out.strip() == shown
