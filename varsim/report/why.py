"""The report of why a scenario's strategies are as slow as they are."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from varsim.inert import markdown
from varsim.report.files.claim import Asked
from varsim.report.parts import AS_TABLE, plain_estimate
from varsim.report.report import Block, Figure, Media, Report, Row, Source, Table, Text
from varsim.report.words import life
from varsim.report.words import why as words
from varsim.report.words.caution import cautions
from varsim.report.words.chain import chain
from varsim.report.words.memory import misfit
from varsim.report.words.names import title
from varsim.report.words.unsaid import pushed_at_the_end, without_overlap
from varsim.scenario.provenance import MADE_BY, provenance
from varsim.study.measure import NANOSECONDS
from varsim.study.statistics import interval
from varsim.study.stragglers import stragglers

if TYPE_CHECKING:
    from varsim.study.why.account import Account, Why


def report(why: "Why", question: str = "", *, figure: bool = True) -> Report:
    """What there is to tell; `question` is what the scenario was to answer.

    `figure`: whether somebody is to see it; without, nothing that draws is imported.
    """
    from varsim.scenario.writing import dump_scenario

    there = [account for account in why.accounts if not account.stuck]
    labels = {account.label for account in there}
    said, name = tuple(notes(why)), why.scenario.name
    answers = tuple(words.answer(account) for account in why.accounts)
    asked = Text((f"*{markdown(question)}*",), plain=True, on=Media.MARKDOWN)
    return Report(
        "why",
        name,
        answers,
        said,
        (
            Text((f"Why is {name} as slow as it is?",), "title", on=Media.MARKDOWN),
            *([asked] if question else []),
            Text(answers, "items", on=Media.TEXT),
            *([_figure(why, there)] if figure else []),
            *(block for account in there for block in _told(account)),
            Text(("What if",), "heading", name="gains", on=Media.PAGE),
            gains(there),
            *_among_failures(there),
            Text(("What was busy",), "heading", name="busy", on=Media.PAGE),
            busy(there),
            Text(("What steps wait for",), "heading", name="chains", on=Media.PAGE),
            *(block for account in there for block in _waited(account)),
            Text(("Notes",), "heading", on=Media.MARKDOWN),
            Text(said, "items"),
        ),
        provenance(why.scenario),
        question,
        _setting(why),
        {one.title: one.family for one in why.scenario.strategies if one.label in labels},
        Source(
            dump_scenario(why.scenario),
            "Everything that was simulated, defaults written out.",
            "With the scenario above saved as `scenario.yaml`; the numbers are the same, byte for "
            "byte:",
            "varsim explain scenario.yaml --out again",
        ),
        {"why.md": "the same as text", "why.json": "all numbers, with their intervals"},
        partial(numbers, why),
    )


def _figure(why: "Why", there: "list[Account]") -> Figure:
    from varsim.report.plots.why import PLOT

    alternative = "Where the time of a step goes, strategy by strategy"
    return Figure(PLOT, why, parts(there), alternative, Media.PAGE | Media.MARKDOWN)


def _among_failures(accounts: "list[Account]") -> list[Block]:
    """What failures leave, and what would leave more: a row per change, a column per strategy."""
    if not any(account.helps for account in accounts):
        return []
    columns = [
        {name: f"{kept}\n{more}" for name, kept, more in life.helps_as_text(account.helps)}
        for account in accounts
    ]
    caption = "Goodput, and how much more that is on the same failures, with 95 % intervals"
    heading = Text(("What failures leave",), "heading", name="failures", on=Media.PAGE)
    return [heading, _table(accounts, columns, caption)]


def _waited(account: "Account") -> Iterator[Block]:
    yield Text((title(account.scenario, account.label),), "label", on=Media.PAGE)
    yield Text(tuple(paragraphs(account)), "paragraphs", on=Media.PAGE)


def _told(account: "Account") -> Iterator[Block]:
    """What there is to say of a strategy that made steps, as a text to read on."""
    first, rest = paragraphs(account)[:3], paragraphs(account)[3:]
    yield Text((title(account.scenario, account.label),), "label", on=Media.TEXT)
    yield from _paragraphs(first)
    for corner, *columns, rows in (
        ("where the time goes", "time", "share", words.parts_as_text(account)),
        ("what if", "it takes", "times as fast", words.gains_as_text(account)),
        ("what failures leave", "goodput", "more", life.helps_as_text(account.helps)),
        ("what was busy", "share", words.uses_as_text(account)),
    ):
        if not rows:
            continue
        found = tuple(Row(label, tuple(cells)) for label, *cells in rows)
        yield Table(tuple(columns), found, corner, holds="numbers", on=Media.TEXT)
    if rest:
        yield from _paragraphs(rest)


def _paragraphs(texts: list[str]) -> Iterator[Block]:
    yield Text(tuple(texts), on=Media.TERMINAL)
    yield Text(tuple(texts), "paragraphs", on=Media.MARKDOWN)


def paragraphs(account: "Account") -> list[str]:
    """What there is to say of a strategy, besides the answer and the tables."""
    if account.stuck:
        return []
    said = [
        words.bottleneck(account),
        chain(account),
        f"{words.spent(account)} {words.straggling(account)}".strip(),
        words.overlap(account),
        words.slower(account),
        life.helped(account.helps) if account.helps else "",
    ]
    return [text for text in said if text]


def notes(why: "Why") -> list[str]:
    """What holds for all of it."""
    first = (
        "Time is attributed to causes in the order of the table, outermost first: the part of "
        "each is how much shorter a step is once it is gone as well. An iteration is the time in "
        "which as many updates are made as there are workers. Intervals: 95 %, paired over "
        "replications."
    )
    large = filter(None, [misfit(why.scenario)])
    told = [words.looked_at(why), *large]
    moving = [account for account in why.accounts if not account.stuck]
    gains = {account.label: account.gain("overlap") for account in moving}
    faster = {label: one.speedup.mean for label, one in gains.items() if one is not None}
    sent = {account.label: account.shares.get("write", 0.0) for account in moving}
    unsaid = (*without_overlap(why.scenario, faster), *pushed_at_the_end(why.scenario, sent))
    return [first, *told, *unsaid, *cautions(why.scenario)]


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
    titles = tuple(title(account.scenario, account.label) for account in accounts)
    return Table(titles, tuple(rows), caption=caption, folded=folded, on=Media.PAGE)


def _setting(why: "Why") -> str:
    workers = why.scenario.cluster.workers
    counts = [(workers, "worker"), (len(why.accounts), "strateg")]
    endings = {"worker": ("", "s"), "strateg": ("y", "ies")}
    return " · ".join(f"{count:,} {what}{endings[what][count != 1]}" for count, what in counts)


def document(why: "Why") -> dict[str, Any]:
    """All numbers, and of what they are: by that a directory of them is known."""
    asked = Asked.of(why.scenario)
    made = {"made_by": MADE_BY, "kind": "why", "name": asked.name, "asked_sha256": asked.sha256}
    return made | numbers(why)


def numbers(why: "Why") -> dict[str, Any]:
    """All numbers: times in s, shares from 0 to 1; null for what does not exist."""
    return {
        "scenario": why.scenario.name,
        "strategies": [_account_json(account) for account in why.accounts],
    }


def _account_json(account: "Account") -> dict[str, Any]:
    label = {"strategy": account.label, "answer": words.answer(account), "stuck": account.stuck}
    if account.stuck:
        return label
    together = account.together
    return label | {
        "asynchronous": account.asynchronous,
        "workers": account.workers,
        "step_time": plain_estimate(account.step_time),
        "examples_per_s": plain_estimate(account.examples_per_s),
        "barrier_over_mean": plain_estimate(
            interval([stragglers(table).slowdown for table in account.compute_times])
        ),
        "parts": [
            {
                "cause": part.key,
                "seconds": plain_estimate(part.seconds),
                "share": account.share(part),
            }
            for part in account.parts
        ],
        "what_if": [
            {
                "without": gain.key,
                "step_time": plain_estimate(gain.step_time),
                "times_as_fast": plain_estimate(gain.speedup),
            }
            for gain in [*account.gains, *([] if together is None else [together])]
        ],
        **_lives_json(account),
        "busy": [use._asdict() for use in account.uses],
        "path": {
            "number": account.typical.number,
            "pieces": [
                {
                    "worker": piece.worker,
                    "activity": piece.activity,
                    "start": piece.start / NANOSECONDS,
                    "end": piece.end / NANOSECONDS,
                }
                for piece in account.typical.pieces
            ],
            "shares": account.shares,
            "last_to_come": {} if account.asynchronous else account.enders,
        },
        "updates_looked_at": account.reruns.steps,
        "replications": account.reruns.replications,
    }


def _lives_json(account: "Account") -> dict[str, Any]:
    if not account.helps:
        return {}
    rows = [
        {
            "change": one.key,
            "goodput": plain_estimate(one.goodput),
            "more": plain_estimate(one.gain),
        }
        for one in account.helps
    ]
    return {"among_failures": rows}
