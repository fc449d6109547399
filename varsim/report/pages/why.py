"""The page that says why a scenario's strategies are as slow as they are, and the files with it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varsim.report.files.claim import Asked, put_into
from varsim.report.pages.page import Row, Section, Table, common, rendered
from varsim.report.words import why as words
from varsim.report.words.why_text import as_json, notes, page, paragraphs
from varsim.scenario.provenance import MADE_BY, provenance

if TYPE_CHECKING:
    from varsim.report.plots.figure import Drawn
    from varsim.study.why.account import Account, Why


def write(why: "Why", directory: Path, question: str = "") -> Path:
    """Write why.html, why.md, why.json and the figure into a directory; returns the page."""
    from varsim.report.plots.plot import draw_one
    from varsim.report.plots.why import PLOT

    asked = Asked.of(why.scenario)
    made = {"made_by": MADE_BY, "kind": "why", "name": asked.name, "asked_sha256": asked.sha256}
    markdown = "\n".join(page(why, question, "md", picture="why.png")) + "\n"
    numbers = json.dumps(made | as_json(why), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def fill(path: Path) -> None:
        drawn = draw_one(PLOT, why, path)
        texts = {"why.md": markdown, "why.json": numbers, "why.html": html(why, drawn, question)}
        for name, text in texts.items():
            (path / name).write_text(text, encoding="utf-8", newline="\n")

    put_into(directory, "why", fill)
    return directory / "why.html"


def html(why: "Why", drawn: "Drawn", question: str = "") -> str:
    """The page; `drawn`: the figure."""
    from varsim.report.plots.figure import looks
    from varsim.report.plots.why import PLOT

    there = [account for account in why.accounts if not account.stuck]
    content: dict[str, Any] = {
        "question": question,
        "setting": _setting(why),
        "answer": [words.answer(account) for account in why.accounts],
        "figures": [Section.of(PLOT, drawn, parts(there))],
        "gains": gains(there),
        "busy": busy(there),
        "accounts": [(account.label, paragraphs(account)) for account in there],
        "notes": notes(why),
        "files": {
            "why.md": "the same as text",
            "why.json": "all numbers, with their intervals",
        },
    }
    found = provenance(why.scenario)
    shared = common(why.scenario, found, looks([account.label for account in there]))
    return rendered("why.html.j2", shared | content)


def parts(accounts: "list[Account]") -> Table:
    """The parts of a step: a row per cause, a column per strategy."""
    columns = [
        {
            name: f"{time} ({share})"
            for name, time, share in words.parts_as_text(account, plain=True)
        }
        for account in accounts
    ]
    return Table("Parts of a step, in the order in which they are taken away", _rows(columns))


def gains(accounts: "list[Account]") -> Table:
    """What would be how many times as fast: a row per change, a column per strategy."""
    columns = [
        {name: f"{often}\n{time}" for name, time, often in words.gains_as_text(account)}
        for account in accounts
    ]
    caption = "How many times as fast, with its 95 % interval, and how long a step then takes"
    return Table(caption, _rows(columns))


def busy(accounts: "list[Account]") -> Table:
    """What was busy: a row for the first, the second and so on; a column per strategy."""
    columns = [
        {str(place): f"{share}: {name}" for place, (name, share) in enumerate(found, 1)}
        for found in map(words.uses_as_text, accounts)
    ]
    return Table("Shares of the time, or of the bandwidth", _rows(columns))


def _rows(columns: list[dict[str, str]]) -> list[Row]:
    """Rows of cells that some of the columns have, in the order of the longest."""
    names: list[str] = []
    for column in columns:
        place = 0
        for name in column:
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    return [Row(name, "", [column.get(name, "-") for column in columns]) for name in names]


def _setting(why: "Why") -> str:
    workers = why.scenario.cluster.workers
    counts = [(workers, "worker"), (len(why.accounts), "strateg")]
    endings = {"worker": ("", "s"), "strateg": ("y", "ies")}
    return " · ".join(f"{count:,} {what}{endings[what][count != 1]}" for count, what in counts)
