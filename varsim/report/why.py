"""The report of why a scenario's strategies are as slow as they are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from varsim.report import page
from varsim.report.files.claim import Asked, put_into
from varsim.report.parts import AS_TABLE
from varsim.report.report import Block, Figure, Media, Report, Row, Source, Table, Text
from varsim.report.words import why as words
from varsim.report.words import why_text as text
from varsim.scenario.provenance import MADE_BY, provenance

if TYPE_CHECKING:
    from varsim.study.why.account import Account, Why


def write(why: "Why", directory: Path, question: str = "") -> Path:
    """Write why.html, why.md, why.json and the figure into a directory; returns the page."""
    asked = Asked.of(why.scenario)
    made = {"made_by": MADE_BY, "kind": "why", "name": asked.name, "asked_sha256": asked.sha256}
    markdown = "\n".join(text.page(why, question, "md", picture="why.png")) + "\n"
    numbers = json.dumps(made | text.as_json(why), indent=2, ensure_ascii=False, allow_nan=False)

    def fill(path: Path) -> None:
        for name, content in {"why.md": markdown, "why.json": f"{numbers}\n"}.items():
            (path / name).write_text(content, encoding="utf-8", newline="\n")
        page.write(report(why, question), path)

    put_into(directory, "why", fill)
    return directory / "why.html"


def report(why: "Why", question: str = "") -> Report:
    """What there is to tell; `question` is what the scenario was to answer."""
    from varsim.report.plots.why import PLOT
    from varsim.scenario.loading import dump_scenario

    there = [account for account in why.accounts if not account.stuck]
    said = tuple(text.notes(why))
    return Report(
        "why",
        why.scenario.name,
        tuple(words.answer(account) for account in why.accounts),
        said,
        (
            Figure(PLOT, why, parts(there)),
            Text(("What if",), "heading", name="gains", on=Media.PAGE),
            gains(there),
            Text(("What was busy",), "heading", name="busy", on=Media.PAGE),
            busy(there),
            Text(("What steps wait for",), "heading", name="chains", on=Media.PAGE),
            *(block for account in there for block in _account(account)),
            Text(said, "items", on=Media.PAGE),
        ),
        provenance(why.scenario),
        question,
        _setting(why),
        tuple(account.label for account in there),
        Source(
            dump_scenario(why.scenario),
            "Everything that was simulated, defaults written out.",
            "With the scenario above saved as `scenario.yaml`; the numbers are the same, byte for "
            "byte:",
            "varsim explain scenario.yaml --out again",
        ),
        {"why.md": "the same as text", "why.json": "all numbers, with their intervals"},
    )


def _account(account: "Account") -> Iterator[Block]:
    yield Text((account.label,), "label", on=Media.PAGE)
    yield Text(tuple(text.paragraphs(account)), "paragraphs", on=Media.PAGE)


def parts(accounts: "list[Account]") -> Table:
    """The parts of a step: a row per cause, a column per strategy."""
    columns = [
        {
            name: f"{time} ({share})"
            for name, time, share in words.parts_as_text(account, plain=True)
        }
        for account in accounts
    ]
    caption = "Parts of a step, in the order in which they are taken away"
    return _table(accounts, columns, caption, folded=AS_TABLE)


def gains(accounts: "list[Account]") -> Table:
    """What would be how many times as fast: a row per change, a column per strategy."""
    columns = [
        {name: f"{often}\n{time}" for name, time, often in words.gains_as_text(account)}
        for account in accounts
    ]
    caption = "How many times as fast, with its 95 % interval, and how long a step then takes"
    return _table(accounts, columns, caption)


def busy(accounts: "list[Account]") -> Table:
    """What was busy: a row for the first, the second and so on; a column per strategy."""
    columns = [
        {str(place): f"{share}: {name}" for place, (name, share) in enumerate(found, 1)}
        for found in map(words.uses_as_text, accounts)
    ]
    return _table(accounts, columns, "Shares of the time, or of the bandwidth")


def _table(
    accounts: "list[Account]", columns: list[dict[str, str]], caption: str, folded: str = ""
) -> Table:
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
    rows = [Row(name, tuple(column.get(name, "-") for column in columns)) for name in names]
    labels = tuple(account.label for account in accounts)
    return Table(labels, tuple(rows), caption=caption, folded=folded, on=Media.PAGE)


def _setting(why: "Why") -> str:
    workers = why.scenario.cluster.workers
    counts = [(workers, "worker"), (len(why.accounts), "strateg")]
    endings = {"worker": ("", "s"), "strateg": ("y", "ies")}
    return " · ".join(f"{count:,} {what}{endings[what][count != 1]}" for count, what in counts)
