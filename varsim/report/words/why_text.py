"""What `varsim explain` prints of a scenario of training: the answer, then strategy by strategy."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

from varsim import inert
from varsim.report.terminal import flow
from varsim.report.words import why as words
from varsim.report.words.caution import cautions
from varsim.study.measure import NANOSECONDS
from varsim.study.statistics import Estimate, interval
from varsim.study.stragglers import stragglers
from varsim.study.why.account import Account, Why

Form: TypeAlias = Literal["table", "md", "json"]
Rows: TypeAlias = Sequence[Sequence[str]]

# The tables of an account: (head, whether its first column is text and all others numbers).
PARTS_HEAD: Final = ("where the time goes", "time", "share")
GAINS_HEAD: Final = ("what if", "it takes", "times as fast")
USES_HEAD: Final = ("what was busy", "share")


def page(why: Why, question: str, form: Form, width: int = 80, picture: str = "") -> Iterator[str]:
    """The lines to print, at most `width` columns wide; `picture`: the file of the figure."""
    if form == "json":
        yield json.dumps(as_json(why), indent=2, ensure_ascii=False, allow_nan=False)
    elif form == "md":
        yield from _markdown(why, question, picture)
    else:
        yield from _terminal(why, width)


def paragraphs(account: Account) -> list[str]:
    """What there is to say of a strategy, besides the answer and the tables."""
    if account.stuck:
        return []
    said = [
        words.bottleneck(account),
        words.chain(account),
        f"{words.spent(account)} {words.straggling(account)}".strip(),
        words.overlap(account),
        words.slower(account),
    ]
    return [text for text in said if text]


def notes(why: Why) -> list[str]:
    """What holds for all of it."""
    first = (
        "Time goes to causes in the order of the table, outermost first: each one's part is what a "
        "step takes less once it is gone as well. An iteration: the time in which as many updates "
        "are made as there are workers. Intervals: 95 %, paired over replications."
    )
    return [first, words.looked_at(why), words.idle_note(why.idle), *cautions(why.scenario)]


def as_json(why: Why) -> dict[str, Any]:
    """All numbers: times in s, shares from 0 to 1; null for what does not exist."""
    return {
        "scenario": why.scenario.name,
        "strategies": [_account_json(account) for account in why.accounts],
        "idle": {
            "fields": list(why.idle.fields),
            "tried": why.idle.tried,
            "whole_runs": why.idle.whole,
        },
    }


def _terminal(why: Why, width: int) -> Iterator[str]:
    for account in why.accounts:
        yield from _flow(words.answer(account), width)
    for account in why.accounts:
        if account.stuck:
            continue
        yield ""
        yield f"== {account.label} ".ljust(width, "=")
        for text in paragraphs(account)[:3]:
            yield from _flow(text, width)
        tables = (
            (PARTS_HEAD, words.parts_as_text(account)),
            (GAINS_HEAD, words.gains_as_text(account)),
            (USES_HEAD, words.uses_as_text(account)),
        )
        for head, rows in tables:
            yield ""
            yield from _aligned(head, rows)
        for index, text in enumerate(paragraphs(account)[3:]):
            if index == 0:
                yield ""
            yield from _flow(text, width)
    yield ""
    for text in notes(why):
        yield from _flow(text, width)


def _markdown(why: Why, question: str, picture: str) -> Iterator[str]:
    yield from (f"# Why is {why.scenario.name} as slow as it is?", "")
    if question:
        yield from (f"*{inert.markdown(question)}*", "")
    for account in why.accounts:
        yield f"- {inert.markdown(words.answer(account))}"
    yield ""
    if picture:
        yield from (f"![Where the time of a step goes, strategy by strategy]({picture})", "")
    for account in why.accounts:
        if account.stuck:
            continue
        yield from (f"## {inert.markdown(account.label)}", "")
        for text in paragraphs(account)[:3]:
            yield from (inert.markdown(text), "")
        yield from _table(PARTS_HEAD, words.parts_as_text(account))
        yield from _table(GAINS_HEAD, words.gains_as_text(account))
        yield from _table(USES_HEAD, words.uses_as_text(account))
        for text in paragraphs(account)[3:]:
            yield from (inert.markdown(text), "")
    yield from ("## Notes", "")
    for text in notes(why):
        yield f"- {inert.markdown(text)}"


def _flow(text: str, width: int) -> list[str]:
    """The lines of a paragraph; a number stays beside its percent sign."""
    return flow(text.replace(" %", "\N{NO-BREAK SPACE}%"), width, "  ")


def _aligned(head: Sequence[str], rows: Rows) -> Iterator[str]:
    """Lines of a table, its first column of words, the others of numbers."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, ["-" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()


def _table(head: Sequence[str], rows: Rows) -> Iterator[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    for row in (head, rule, *rows):
        cells = row if row is rule else map(inert.markdown, row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _account_json(account: Account) -> dict[str, Any]:
    label = {"strategy": account.label, "answer": words.answer(account), "stuck": account.stuck}
    if account.stuck:
        return label
    together = account.together
    return label | {
        "asynchronous": account.asynchronous,
        "workers": account.workers,
        "step_time": _estimate(account.step_time),
        "examples_per_s": _estimate(account.examples_per_s),
        "barrier_over_mean": _estimate(
            interval([stragglers(table).slowdown for table in account.compute_times])
        ),
        "parts": [
            {"cause": part.key, "seconds": _estimate(part.seconds), "share": account.share(part)}
            for part in account.parts
        ],
        "what_if": [
            {
                "without": gain.key,
                "step_time": _estimate(gain.step_time),
                "times_as_fast": _estimate(gain.speedup),
            }
            for gain in [*account.gains, *([] if together is None else [together])]
        ],
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


def _estimate(found: Estimate) -> dict[str, float | None]:
    numbers = {"mean": found.mean, "low": found.low, "high": found.high}
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
