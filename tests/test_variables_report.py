"""The report page of a result of variables: complete, self-contained, the same every time."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.programs import MODES, WIRE, add, read, scenario, variable
from tests.seams import load_text
from tests.test_report import Page
from varsim import VariablesResult, simulate_variables
from varsim.report import page, variables
from varsim.report.files.program import save_variables
from varsim.report.parts import MOST_LINKS
from varsim.report.plots.program.gallery import plots

LARGE = variable(name="wide", shape=(1000,), aggregation="mean")


def result(**changes: Any) -> VariablesResult:
    whole: dict[str, Any] = {
        "replicas": (add(3.0, 1.0, 2.0), {**add(1.0), "variable": "wide"}, read()),
        "outside": (read(), {"kind": "save", "every": 2}),
        "steps": 2,
        "variables": (variable(), LARGE),
    }
    return simulate_variables(scenario(**{**whole, **changes}))


@pytest.fixture(scope="module")
def counted() -> VariablesResult:
    return result(vary={"reads_per_write": (0, 1, 2)})


@pytest.fixture(scope="module")
def text(counted: VariablesResult, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(counted, tmp_path_factory.mktemp("page"), "Is 1 < 2 & 3?")


def written(result: VariablesResult, directory: Path, question: str = "") -> str:
    page.write(variables.report(result, question), directory)
    return (directory / "report.html").read_text(encoding="utf-8")


class TestPage:
    def test_says_everything(self, counted: VariablesResult, text: str) -> None:
        page = Page(text)
        for sentence in (*counted.answer().splitlines(), *counted.notes):
            assert " ".join(sentence.split()) in page.text
        assert "Is 1 < 2 & 3?" in page.text
        for plot in plots(counted):
            assert plot.heading in page.text
            assert " ".join(plot.reads(counted).split()) in page.text
        for heading in counted.table().columns:
            assert heading in page.text
        for value in counted.provenance.values():
            assert str(value) in page.text
        assert page.tags["svg"] == len(plots(counted)) == 3
        assert "3 replicas · 3 modes · 2 steps · 1 replication · seed 0" in page.text

    def test_the_answer_comes_first(self, text: str) -> None:
        places = [text.index(part) for part in (
            'class="answer"', 'id="comparison"', 'id="values"', 'id="crossover"', 'id="cost"',
            'id="step"', 'id="scenario"', 'id="again"',
        )]  # fmt: skip
        assert places == sorted(places)

    def test_without_a_variation_there_is_no_crossover(self, tmp_path: Path) -> None:
        page = written(result(), tmp_path)
        assert "How often the outside reads" not in page
        assert Page(page).tags["svg"] == 2

    def test_holds_a_scenario_that_loads_again(self, counted: VariablesResult, text: str) -> None:
        start = '<pre tabindex="0" aria-label="The scenario"><code>'
        found = text.split(start)[1].split("</code>")[0]
        assert load_text(found.replace("&#34;", '"').replace("&amp;", "&")) == counted.scenario

    def test_loads_nothing_and_every_reference_leads_somewhere(self, text: str) -> None:
        page = Page(text)
        assert not {"link", "img", "iframe", "object", "embed"} & set(page.tags)
        assert (page.tags["script"], page.values("src")) == (2, []), "shared, and of the tables"
        assert "http" not in text.replace("http-equiv", "")
        ids = page.values("id")
        assert len(ids) == len(set(ids))
        targets = page.values("href") + page.values("xlink:href")
        targets += [f"#{name}" for name in re.findall(r"url\(#([^)]*)\)", text)]
        assert len(targets) > 50
        assert {target.removeprefix("#") for target in targets} <= set(ids)

    def test_can_be_read_aloud(self, text: str) -> None:
        page = Page(text)
        for tag, needed in (("svg", "aria-label"), ("table", "aria-label"), ("html", "lang")):
            said = [value for at, name, value in page.attributes if (at, name) == (tag, needed)]
            assert len(said) == page.tags[tag] > 0
            assert all(said)
        assert page.tags["th"] == len(page.values("scope"))

    def test_links_only_to_files_that_are_there(self, tmp_path: Path) -> None:
        (tmp_path / "acts.csv").touch()
        page = Page(written(result(), tmp_path))
        files = [value for value in page.values("href") if not value.startswith("#")]
        assert files == ["acts.csv"]

    def test_explains_every_file_of_a_run(self, counted: VariablesResult, tmp_path: Path) -> None:
        save_variables(counted, tmp_path / "run")
        assert {path.name for path in (tmp_path / "run").iterdir()} == set(variables.FILES)
        assert all(variables.FILES.values())


class TestTables:
    def test_comparison_has_every_cell_and_explains_every_row(
        self, counted: VariablesResult
    ) -> None:
        table = variables.comparison(counted)
        cells = counted.table()
        assert [row.label for row in table.rows] == list(cells.columns)
        for row in table.rows:
            assert row.meaning
            assert row.cells == tuple(cells[row.label])
        assert table.caption == "One replication"

    def test_several_replications_are_said(self) -> None:
        cluster = {"workers": 3, "compute": {"kind": "exponential", "mean": 1e-3}, "network": WIRE}
        several = result(
            replicas=({"kind": "compute"}, add(1.0)), cluster=cluster, replications=3,
            variables=(variable(),),
        )  # fmt: skip
        said = variables.comparison(several).caption
        assert said.startswith("Means over 3 replications, ±")

    def test_values_in_short_and_replica_by_replica(self, counted: VariablesResult) -> None:
        first, second = (
            variables.values(counted, described) for described in counted.scenario.variables
        )
        assert [(row.label, row.cells) for row in first.rows] == [
            ("replicas", ("6, 2, 4", "12 each", "12 each")),
            ("outside", ("12", "12", "12")),
            ("copies at the end", ("6, 2, 4", "12 each", "12")),
        ]
        assert first.more is not None
        rows = [(row.label, row.cells) for row in first.more.rows]
        assert rows[:2] == [("replica 0", ("6", "12", "12")), ("copy 0", ("6", "12", "-"))]
        assert len(rows) == 6
        # All copies of the other are alike, and nobody read it but the checkpoint.
        assert second.more is None

    def test_over_ratios(self, counted: VariablesResult) -> None:
        rows = variables.varied(counted).rows
        assert [row.label for row in rows] == ["0", "1", "2"]
        assert all(len(row.cells) == len(MODES) for row in rows)

    def test_links_by_hand(self) -> None:
        # Two steps: three writes of 4,000 bytes to the server in each.
        served = result(
            replicas=({**add(1.0), "variable": "wide"},), outside=(), variables=(LARGE,),
            modes=("none",),
        )  # fmt: skip
        row = variables.links(served).rows[0]
        assert (row.label, row.meaning) == ("ps 0 down", "8 Mbit/s")
        # 24,000 bytes in 2 x 12,100 us.
        assert row.cells == ("24 kB (99.2 %)",)

    def test_they_carry_the_creation_too_and_the_page_says_so(self) -> None:
        found = result(modes=("on_read",))
        trace = found.trace("on_read")
        up = sum(link.moved for link in trace.links if link.name.endswith("up"))
        assert (
            up > trace.moved == up - sum(row.size for row in trace.sent if row.end <= trace.began)
        )
        assert "what is sent before step 1 to make the variables is included" in (
            variables.links(found).caption
        )

    def test_of_many_links_the_busiest_are_listed(self) -> None:
        many = result(
            replicas=(add(1.0),), variables=(variable(),), cluster={"workers": 30, "network": WIRE},
            outside=(),
        )  # fmt: skip
        table = variables.links(many)
        assert len(table.rows) == MOST_LINKS
        assert table.caption.endswith("the busiest 20 of 62 links")
        assert "-" in {cell for row in table.rows for cell in row.cells}
