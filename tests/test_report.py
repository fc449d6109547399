"""The report page: complete, self-contained, safe with any name, the same bytes every time."""

import re
from collections import Counter
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.handmade import ODD_NAMES, a_result, a_trace, result_of
from tests.seams import LinkRow, Result, Trace, load_text
from varsim.report import page
from varsim.report.files.save import save
from varsim.report.notes import line
from varsim.report.products import figures
from varsim.report.products.figures import MOST_LINKS
from varsim.report.wording import shown, unheld

VOID = {"meta", "br", "img", "link", "input", "hr", "wbr"}


class Page(HTMLParser):
    """What a page holds; a tag that is closed wrongly is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, name: str) -> list[str]:
        return [value for _, found, value in self.attributes if found == name]


def written(result: Result, directory: Path, question: str = "") -> str:
    told = replace(result.report, question=question)
    page.write(told, directory)
    return (directory / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page about strategies whose names try everything."""
    result = a_result({name: (1, 2 + index % 2) for index, name in enumerate(ODD_NAMES)})
    return written(result, tmp_path_factory.mktemp("odd"), "Is 1 < 2 & 3?")


class TestPage:
    def test_says_everything(self, tmp_path: Path) -> None:
        result = a_result({"a": (1, 2), "b": (2, 2)}, targets={"loss": 0.7})
        page = Page(written(result, tmp_path, "What is it about?"))
        for note in (*result.report.headline, *result.report.notes):
            assert unheld(line(note)) in page.text.replace("\N{NO-BREAK SPACE}", " ")
        assert "What is it about?" in page.text
        columns, _ = result.report.table.brief()
        for column in columns:
            assert column.head in page.text
        for value in result.provenance.values():
            assert str(value) in page.text
        assert page.tags["svg"] == 0, "scripts draw"

    def test_holds_a_scenario_that_loads_again(self, odd: str) -> None:
        start = '<pre tabindex="0" aria-label="The scenario"><code>'
        scenario = load_text(unescape(odd.split(start)[1].split("</code>")[0]))
        assert [strategy.label for strategy in scenario.strategies] == list(ODD_NAMES)

    def test_shows_names_as_they_are(self, odd: str) -> None:
        page = Page(odd)
        for name in ODD_NAMES:
            assert " ".join(name.split()) in page.text
        assert page.tags["b"] == odd.count("]</b>"), "codes of notes"
        assert "Is 1 < 2 & 3?" in page.text

    def test_loads_nothing(self, odd: str) -> None:
        page = Page(odd)
        assert not {"link", "img", "iframe", "object", "embed"} & set(page.tags)
        assert page.values("src") == []  # nor have scripts: shared, data, the player
        assert page.tags["script"] == 5
        assert all(value.startswith("#") for value in page.values("href"))
        assert "http" not in odd.replace("http-equiv", "")
        assert "@import" not in odd
        assert "url(" not in odd

    def test_every_id_is_one_of_a_kind_and_every_reference_leads_somewhere(self, odd: str) -> None:
        page = Page(odd)
        ids = page.values("id")
        assert len(ids) == len(set(ids))
        targets = page.values("href")
        assert {target.removeprefix("#") for target in targets} <= set(ids)

    def test_can_be_read_aloud(self, odd: str) -> None:
        page = Page(odd)
        (language,) = [
            value for tag, name, value in page.attributes if (tag, name) == ("html", "lang")
        ]
        assert language == "en"
        assert page.tags["th"] == len(page.values("scope"))

    def test_fits_dark_and_narrow_screens_and_paper(self, odd: str) -> None:
        assert "prefers-color-scheme: dark" in odd
        assert "@media print" in odd
        assert 'name="viewport"' in odd
        assert "light-dark(" in odd

    def test_intervals_and_units_stay_whole(self, tmp_path: Path) -> None:
        text = written(a_result({"a": (1, 2), "b": (1, 1)}), tmp_path)
        assert not re.search(r"<td[^>]*>[^<]*\d (?:to|±|%|[mun]?s\b)", text)

    def test_is_the_same_every_time(self, tmp_path: Path) -> None:
        texts = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            texts.append(written(a_result({"a": (1, 2)}), tmp_path / name))
        assert texts[0] == texts[1]

    def test_links_only_to_files_that_are_there(self, tmp_path: Path) -> None:
        (tmp_path / "summary.csv").touch()
        page = Page(written(a_result(), tmp_path))
        files = [value for value in page.values("href") if not value.startswith("#")]
        assert files == ["summary.csv"]

    def test_explains_every_file_of_a_run(self, tmp_path: Path) -> None:
        save(a_result(), tmp_path / "run")
        assert {path.name for path in (tmp_path / "run").iterdir()} == set(figures.FILES)


class TestDetails:
    def test_numbers_are_those_of_the_summary_that_exist(self) -> None:
        result = a_result()
        every, _ = result.report.appendix
        known = result.summary.dropna(subset=["mean"])
        assert set(every.rows) == set(known["metric"])
        (column,) = every.columns
        said = dict(zip(every.rows, map(unheld, map(shown, column.cells)), strict=True))
        assert said["share_compute"] == "65 %"
        assert said["age_mean"] == "3.67 s"
        assert said["link_bytes"] == "750 B"

    def test_links_by_hand(self) -> None:
        # 250 and 500 bytes over 100 bytes/s in 10 s; b has another link.
        other = a_trace("b").links[0]._replace(name="ps 0 up", bandwidth=200.0)
        slow = result_of([a_trace("a"), _with_links(a_trace("b"), [other])])
        _, links = slow.report.appendix
        assert links.rows == ("worker 0 down", "worker 0 up", "ps 0 up")
        cells = [[unheld(shown(cell)) for cell in column.cells] for column in links.columns]
        assert cells == [["50 %", "25 %", "-"], ["-", "-", "12.5 %"]]

    def test_of_many_links_the_busiest_are_listed_and_the_rest_counted(self) -> None:
        link = a_trace().links[0]
        many = [link._replace(name=f"link {n}", moved=float(n)) for n in range(1_000)]
        _, table = result_of([_with_links(a_trace(), many)]).report.appendix
        assert table.rows[0] == "link 999"
        assert len(table.rows) == MOST_LINKS
        assert table.corner.endswith("20 of 1000")
        server = link._replace(name="ps 0..7 up", moved=0.5)
        _, table = result_of([_with_links(a_trace(), [*many, server])]).report.appendix
        assert table.rows[-2:] == ("link 981", "ps 0..7 up")

    def test_a_run_without_links_has_no_such_table(self) -> None:
        assert len(result_of([_with_links(a_trace(), [])]).report.appendix) == 1


def _with_links(trace: Trace, links: list[LinkRow]) -> Trace:
    return replace(trace, links=links)
