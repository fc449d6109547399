"""What is told of why strategies are slow: a row each, a column per cause, and what would help."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from varsim.report.files.directory import Origin
from varsim.report.products import cautions
from varsim.report.told import (
    Cell,
    Chart,
    Column,
    Data,
    Note,
    Number,
    Report,
    Reproduction,
    Table,
    Value,
    plain_estimate,
)
from varsim.report.wording import names, ranks, resource, shown
from varsim.scenario.writing import MADE_BY, provenance
from varsim.study.gradients import NANOSECONDS
from varsim.study.stragglers import stragglers
from varsim.study.verdict import CLOSE, EQUAL, SAME, UNTOLD, WORSE, interval
from varsim.study.why.levers import LEVERS
from varsim.study.why.path import SERVER, CriticalPath, PathPiece

if TYPE_CHECKING:
    from varsim.study.why.account import Account, Gain, StepPart, Why
    from varsim.study.why.lives import Help


NEGLIGIBLE: Final = 0.005  # smaller parts of a step are not worth a word
_SECOND: Final = 0.1  # a smaller part of a step is not called a second cause
_SLOWER: Final = 0.9  # of a speed: what a change costs from here on is told
_MOST_CAUSES: Final = 4  # that are shown without --all
_MOST_BUSY: Final = 5
_PLACES: Final = [lever.key for lever in LEVERS]
_FILES: Final = {"why.md": "the same as text", "why.json": "all numbers, with their intervals"}


def report(why: "Why") -> Report:
    """What there is to tell of it."""
    from varsim.scenario.writing import dump_scenario

    scenario, found = why.scenario, _TellingWhy(why)
    table = found.table()
    return Report(
        "why",
        scenario.name,
        tuple(found.headline()),
        table,
        tuple(found.notes()),
        next="varsim explain FILE --strategy NAME" if len(found.moving) > 1 else "",
        details=tuple(found.details()),
        source=Reproduction(dump_scenario(scenario), "varsim explain scenario.yaml --out again"),
        provenance=provenance(scenario),
        families={found.named[one.label]: one.traits.family for one in scenario.strategies},
        files=_FILES,
        data=Data.of_table(table, [one.label for one in why.accounts]),
        facts=partial(document, why),
        pictures=lambda: tuple(found.charts()),
    )


class _TellingWhy:
    """All accounts, and those of strategies that made steps."""

    def __init__(self, why: "Why") -> None:
        self.why, self.scenario, self.named = why, why.scenario, names(why.scenario)
        self.moving = [one for one in why.accounts if not one.stuck]

    def _who(self, accounts: "Sequence[Account]") -> tuple[str, ...]:
        return tuple(self.named[one.label] for one in accounts)

    # --- the headline -----------------------------------------------------------------------------

    def headline(self) -> Iterator[Note]:
        """What takes most of a step, by cause; of one strategy alone, what would help most."""
        if not self.moving:
            yield Note("nothing-explained", {"who": self._who(self.why.accounts)})
            return
        groups: dict[str, list[Account]] = {}
        for account in self.moving:
            # What is too close to call is so of one strategy, by its own numbers.
            key = account.label if _rivals(account) else _cause(account, account.main)
            groups.setdefault(key, []).append(account)
        largest = sorted(groups.values(), key=lambda one: -len(one))[:3]
        for accounts in largest:
            who, (first, *_) = self._who(accounts), accounts
            if rivals := _rivals(first):
                causes = tuple(_sized(first, part) for part in (first.main, *rivals))
                yield Note("due-to-either", {"who": who, "causes": causes})
                continue
            shares = [account.share(account.main) for account in accounts]
            yield Note("due-to", {"who": who, "cause": _cause(first, first.main), **_ends(shares)})
        if len(self.moving) == 1 and len(largest) < 3:
            yield from _most_help(self.moving[0])

    # --- the chart --------------------------------------------------------------------------------

    def charts(self) -> Iterator[Chart]:
        """A bar per strategy, as long as its step, cut into its causes."""
        units = {True: "an iteration of all workers", False: "a step"}
        of = dict.fromkeys(units[account.asynchronous] for account in self.moving)
        rows = [
            {
                "who": self.named[account.label],
                "part": "mean_compute" if part.key == "compute" else part.key,
                "mean": part.seconds.mean,
                "best": False,
            }
            for account in self.moving
            for part in account.parts
        ]
        if rows:
            x = f"time of {', or of '.join(of)} (s)"
            yield Chart.of("why", "cut bars", rows, x, "", by="who")

    # --- the table --------------------------------------------------------------------------------

    def table(self) -> Table:
        """A row per strategy: what a step takes, the share of each cause, what would help most."""
        accounts = self.why.accounts
        steps = tuple("-" if one.stuck else Number.of(one.step_time, "s") for one in accounts)
        helped = any(one.helps for one in self.moving)
        found = [Column("step_time", "a step", steps, bar=True, main=True)] * bool(self.moving)
        found += self._causes(_MOST_CAUSES - 2 * helped)
        found.append(self._column("helps", "would help most", _help_cell))
        if helped:
            found.append(self._column("goodput", "goodput", _kept))
            found.append(self._column("among_failures", "would keep most", _most_kept))
        found.append(self._column("busiest", "busiest", _busiest, detail=True))
        found.append(self._column("barrier_over_mean", "slowest / mean", _slowest, detail=True))
        found.append(self._column("left_out", "micro-batches left out", _left_out, detail=True))
        there = [one for one in found if any(shown(cell) != "-" for cell in one.cells)]
        return Table(self._who(accounts), tuple(there), fold=False)

    def _column(self, key: str, head: str, cell: Any, *, detail: bool = False) -> Column:
        cells = ("-" if one.stuck else cell(one) for one in self.why.accounts)
        return Column(key, head, tuple(cells), detail=detail)

    def _causes(self, most: int) -> list[Column]:
        """A column per cause in the order in which they are taken away; the largest are shown."""
        if not self.moving:
            return []
        heads = {part.key: part.cause for one in self.moving for part in one.parts}
        order = [*(key for key in _PLACES if key in heads), "rest"]
        sizes = {
            key: max(abs(one.share(p)) for one in self.moving for p in one.parts if p.key == key)
            for key in order
        }
        there = [key for key in order if sizes[key] >= NEGLIGIBLE]
        first = sorted(there, key=lambda key: -sizes[key])[:most]
        # In little room the largest that can be removed stays longest, then what would help most.
        by_room = sorted(there, key=lambda key: (key not in first, key == "compute", -sizes[key]))
        return [
            self._column(key, heads[key], partial(_share, key), detail=key not in first)._replace(
                rank=by_room.index(key) - 1
            )
            for key in there
        ]

    # --- the notes --------------------------------------------------------------------------------

    def notes(self) -> Iterator[Note]:
        """How to read the table, how much was run, and what misleads."""
        for one in self.why.accounts:
            if one.stuck:
                deadlocked = any(trace.standstill for trace in one.traces)
                code = "explain-deadlock" if deadlocked else "no-update"
                yield Note(code, {"who": self.named[one.label]})
        yield from cautions.memory(self.scenario)
        if not self.moving:
            return
        yield Note("shares")
        if own := [one for one in self.moving if one.asynchronous]:
            yield Note("iteration", {"who": self._who(own)})
        yield self._looked_at()
        yield from self._slower()
        replications = self.moving[0].replications
        if replications > 1:
            yield Note("interval", {"count": replications})
        elif not all(one.exact for one in self.moving):
            yield Note("one-run")
        yield from (one for one in cautions.of_scenario(self.scenario) if one.code != "memory")
        sent = {one.label: one.shares.get("write", 0.0) for one in self.moving}
        yield from cautions.after_backward(self.scenario, sent, self._overlap_gains)

    def _overlap_gains(self) -> dict[str, float]:
        gains = {one.label: one.gain("overlap") for one in self.moving}
        return {label: gain.speedup.mean for label, gain in gains.items() if gain is not None}

    def _looked_at(self) -> Note:
        runs = self.why.accounts
        counts = [run.steps for run in runs]
        of: dict[str, Value] = {"low": min(counts), "high": max(counts)}
        if self.scenario.replications > 1:
            of |= {"count": runs[0].replications, "of": self.scenario.replications}
        return Note("beginning", of)

    def _slower(self) -> Iterator[Note]:
        """Which changes make some slower, as identical workers then move together."""
        worse = {
            self.named[one.label]: [gain.title for gain in one.gains if gain.speedup.mean < _SLOWER]
            for one in self.moving
            if one.asynchronous
        }
        changes = tuple(dict.fromkeys(title for titles in worse.values() for title in titles))
        if changes:
            who = tuple(name for name, titles in worse.items() if titles)
            yield Note("slower-alike", {"who": who, "changes": changes})

    # --- the details ------------------------------------------------------------------------------

    def details(self) -> Iterator[Table]:
        """Of each strategy: what a step waits for, what if, what was busy, what failures leave."""
        for one in self.moving:
            name = self.named[one.label]
            yield chain(one, name)
            yield _spent(one, name)
            yield _what_ifs(one, name)
            busy = one.uses[:_MOST_BUSY]
            shares = tuple(Number(use.share, unit="part") for use in busy)
            rows = tuple(resource(use) for use in busy)
            yield Table(rows, (Column("busy", "used", shares),), corner=f"{name}: busiest")
            if one.helps:
                yield _failures(one.helps, name)


def _rivals(account: "Account") -> "list[StepPart]":
    """The parts of a step that may be as large as the largest."""
    return [
        part
        for part in account.parts
        if part.key not in (account.main.key, "rest")
        and account.share(part) >= _SECOND
        and account.beside_main(part) in (CLOSE, EQUAL, SAME)
    ]


def _sized(account: "Account", part: "StepPart") -> str:
    return f"{_cause(account, part)} {shown(Number(account.share(part), unit='part'))}"


def _cause(account: "Account", part: "StepPart") -> str:
    """What a part of the step is due to, with who is slow."""
    if part.key == "compute":
        return "computing"
    if part.key == "stragglers":
        slow = sorted({one.rank for one in account.scenario.cluster.stragglers})
        return f"stragglers (worker{'s' * (len(slow) > 1)} {ranks(slow)})"
    return part.cause


def _ends(shares: Sequence[float]) -> dict[str, Value]:
    """The least and the largest share, once where they are told alike."""
    low, high = (Number(one, unit="part") for one in (min(shares), max(shares)))
    return {"share": high} if shown(low) == shown(high) else {"low": low, "high": high}


def _most_help(account: "Account") -> Iterator[Note]:
    gain, sure = _best(account)
    if gain is not None:
        of: dict[str, Value] = {"change": gain.title, "times": Number.of(gain.speedup)}
        yield Note("helps" if sure else "may-help", of)


def _best(account: "Account") -> "tuple[Gain | None, bool]":
    """The largest gain besides that of instant compute, and whether it is sure."""
    least = 1 + account.scenario.report.equal_within
    # Bandwidth everywhere is also that of ports, uplinks and slow links, where one of these is it.
    narrower = account.main.key in ("server", "uplinks", "slow_links")
    left_out = ("compute", "bandwidth") if narrower else ("compute",)
    gains = [one for one in account.gains if one.key not in left_out and one.speedup.mean > least]
    for said in ((WORSE, UNTOLD), (CLOSE,)):
        there = [one for one in gains if account.faster(one) in said]
        if there:
            best = max(there, key=lambda one: one.speedup.mean)
            return best, CLOSE not in said
    return None, False


def _help_cell(account: "Account") -> Cell:
    gain, sure = _best(account)
    if gain is None:
        return "-"
    return f"{gain.title} {shown(Number(gain.speedup.mean))}x{'' if sure else '?'}"


def _share(key: str, account: "Account") -> Cell:
    part = next((one for one in account.parts if one.key == key), None)
    share = 0.0 if part is None else account.share(part)
    return Number(share, unit="part") if abs(share) >= NEGLIGIBLE else "-"


def _kept(account: "Account") -> Cell:
    return Number.of(account.helps[0].goodput, "share") if account.helps else "-"


def _most_kept(account: "Account") -> Cell:
    best = max(account.helps[1:], key=lambda one: one.gain.mean, default=None)
    if best is None or best.gain.mean <= 0:
        return "-"
    return f"{best.title} +{shown(_points(best))}{'' if best.gain.low > 0 else '?'}"


def _points(one: "Help") -> Number:
    """How much more of the time is kept, in points of a percent."""
    return Number(100 * one.gain.mean, 100 * one.gain.half_width, "points")


def _busiest(account: "Account") -> Cell:
    use = account.uses[0]
    return f"{resource(use)} {shown(Number(use.share, unit='part'))}"


def _slowest(account: "Account") -> Cell:
    """How many times as long as the mean the slowest of a step computes."""
    found = [stragglers(table).slowdown for table in account.compute_times]
    return Number.of(interval(found)) if found else "-"


def _left_out(account: "Account") -> Cell:
    return "-" if account.left_out is None else Number(account.left_out, unit="part")


def _spent(account: "Account", name: str) -> Table:
    """The parts of a step, which add up to it."""
    there = [one for one in account.parts if one.key != "rest" or account.share(one) >= NEGLIGIBLE]
    times = tuple(Number.of(one.seconds, "s") for one in there)
    shares = tuple(Number(account.share(one), unit="part") for one in there)
    columns = (Column("seconds", "of a step", times), Column("share", "share", shares))
    return Table(tuple(one.cause for one in there), columns, corner=f"{name}: cause")


def _what_ifs(account: "Account", name: str) -> Table:
    gains = [*account.gains]
    if account.together is not None:
        gains.append(account.together._replace(title="all of these but compute"))
    times = tuple(Number.of(one.step_time, "s") for one in gains)
    often = tuple(Number.of(one.speedup) for one in gains)
    columns = (
        Column("step_time", "a step takes", times),
        Column("speedup", "times as fast", often),
    )
    return Table(tuple(one.title for one in gains), columns, corner=f"{name}: what if")


def _failures(helps: "Sequence[Help]", name: str) -> Table:
    """What failures leave, and would with each change."""
    kept = tuple(Number.of(one.goodput, "share") for one in helps)
    more = tuple(_points(one) if one.key else "-" for one in helps)
    columns = (Column("goodput", "goodput", kept), Column("more", "more", more))
    return Table(tuple(one.title for one in helps), columns, corner=f"{name}: among failures")


def document(why: "Why") -> dict[str, Any]:
    """All numbers, and of what they are: by that a directory of them is known."""
    from varsim.report.notes import plain

    found, asked = _TellingWhy(why), Origin.of(why.scenario)
    return {
        "made_by": MADE_BY,
        "kind": "why",
        "name": asked.name,
        "asked_sha256": asked.sha256,
        "scenario": why.scenario.name,
        "headline": [plain(note) for note in found.headline()],
        "notes": [plain(note) for note in found.notes()],
        "strategies": [_account_json(account) for account in why.accounts],
    }


def _account_json(account: "Account") -> dict[str, Any]:
    """Times in s, shares from 0 to 1; null for what does not exist."""
    label: dict[str, Any] = {"strategy": account.label, "stuck": account.stuck}
    if account.stuck:
        return label
    together = account.together
    found = label | {
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
            "last_to_come": {}
            if account.asynchronous
            else {str(worker): share for worker, share in account.enders.items()},
        },
        "updates_looked_at": account.steps,
        "replications": account.replications,
    }
    if account.helps:
        found["among_failures"] = [
            {
                "change": one.key,
                "goodput": plain_estimate(one.goodput),
                "more": plain_estimate(one.gain),
            }
            for one in account.helps
        ]
    return found


_OFTEN: Final = 4  # what repeats so often is told at once
_WAITS: Final = {"handling": "the server", "port": "the server's port"}
# What sending is called, by whom it goes to; else by what replicas hold.
_SENDS: Final = {
    "servers": ("reading", "pushing"),
    "centre": ("reading", "pushing"),
    "neighbours": ("getting means", "exchanging copies"),
    "shards": ("all-gather", "reduce-scatter"),
    "copies": ("receiving", "all-reduce"),
}
_ACTIVITIES: Final = {
    "compute": "computing",
    "barrier": "waiting for others",
    "token": "waiting for a token",
    "lock": "waiting for the lock",
    "down": "not running",
    SERVER: "the server",
}


class _Row(NamedTuple):
    what: str
    nanoseconds: int


def chain(account: "Account", name: str) -> Table:
    """The typical step of a strategy, or iteration of a worker: who did what for how long."""
    path = account.typical
    rows = list(_rows(account, path))
    corner = f"{name}: typical step ({path.number})"
    if account.asynchronous:
        worker = path.pieces[0].worker
        corner = f"{name}: typical iteration ({path.number} of worker {worker})"
    times = tuple(Number(row.nanoseconds / NANOSECONDS, unit="s") for row in rows)
    shares = tuple(Number(row.nanoseconds / path.length, unit="part") for row in rows)
    columns = (Column("seconds", "takes", times), Column("share", "share", shares))
    return Table(tuple(row.what for row in rows), columns, corner=corner)


def _rows(account: "Account", path: CriticalPath) -> Iterator[_Row]:
    """The pieces; a worker is named where it changes, what all do is told once."""
    pieces = path.pieces
    worker = pieces[0].worker if account.asynchronous else None
    moved = ("read", "write") if account.shards else () if account.servers else ("write",)
    index = 0
    while index < len(pieces):
        if count := _folded(pieces[index:]):
            yield from _at_once(account, pieces[index : index + count])
            index, worker = index + count, None
            continue
        piece, end = pieces[index], pieces[index].end
        index += 1
        by_all = piece.activity in (SERVER, *moved)
        while by_all and index < len(pieces) and pieces[index].activity == piece.activity:
            end = pieces[index].end
            index += 1
        what = _activity(account, piece.activity)
        if piece.activity == "queue" and index < len(pieces):
            what += {"read": " to read", "write": " to push"}.get(pieces[index].activity, "")
        if piece.worker != worker and not by_all:
            what, worker = f"worker {piece.worker}: {what}", piece.worker
        yield _Row(what, end - piece.start)


def _folded(pieces: Sequence[PathPiece]) -> int:
    """How many of the first pieces are told at once; 0 where nothing repeats often enough.

    The longest beginning of two activities, else of three, of which one occurs `_OFTEN` times.
    """
    for kinds in (2, 3):
        seen: Counter[str] = Counter()
        for piece in pieces:
            if piece.activity not in seen and len(seen) == kinds:
                break
            seen[piece.activity] += 1
        if seen.most_common(1)[0][1] >= _OFTEN:
            return seen.total()
    return 0


def _at_once(account: "Account", pieces: Sequence[PathPiece]) -> Iterator[_Row]:
    """`94 x all-gather`, and how long that takes in all."""
    total: dict[str, list[int]] = {}
    for piece in pieces:
        total.setdefault(_activity(account, piece.activity), []).append(piece.end - piece.start)
    for name, times in total.items():
        yield _Row(f"{len(times)} x {name}", sum(times))


def _activity(account: "Account", activity: str) -> str:
    """What it is called as a part of a step."""
    if activity in ("read", "write"):
        (strategy,) = account.scenario.strategies
        kept = "shards" if account.shards else "copies"
        to = strategy.sends.to if strategy.sends.to in _SENDS else kept
        return _SENDS[to][activity == "write"]
    if activity == "queue":
        jam = account.jam
        return f"waiting for {_WAITS.get(jam.kind, 'the network')}" if jam else "waiting"
    return _ACTIVITIES[activity]
