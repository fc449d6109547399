"""What links and other resources are called."""

import re

from varsim.study.why.resources import Use
from varsim.units import span

_OF_HOSTS = re.compile(r"(worker|ps|rack) ([\d., ]+) (up|down|handling|applying)")
_DOES = {"handling": "handling requests", "applying": "applying gradients"}
_NUMBERS = re.compile(r"\d+(?:\.\.\d+)?(?:, \d+(?:\.\.\d+)?)+|\d+\.\.\d+")


def percent(share: float) -> str:
    """A share as text, `83 %`."""
    size = round(100 * share, 1) + 0.0
    return f"{size:.0f} %" if abs(size) >= 9.5 or size == 0 else f"{size:.1f} %"


def numbers(ranks: str) -> str:
    """`0..3, 5` in words: `0 to 3 and 5`; `0..1`: `0 and 1`."""
    runs = [run.split("..") for run in ranks.split(", ")]
    *some, last = [span(int(run[0]), int(run[-1])) for run in runs]
    return f"{', '.join(some)} and {last}" if some else last


def resource(use: Use) -> str:
    """`the server's port (ps 0, receiving)`, `worker 3's link, sending`, `worker 3 computing`."""
    if use.kind == "port":
        return f"{ports(use)} ({named(use)}, {_way(use)})"
    if use.kind == "compute":
        return named(use).replace("worker ", "workers ", 1 if _many(use) else 0)
    if use.kind == "link":
        rank = named(use).removeprefix("worker ")
        whose = f"the links of workers {rank}" if _many(use) else f"worker {rank}'s link"
        return f"{whose}, {_way(use)}"
    if use.kind == "shared" and use.name.endswith((" up", " down")):  # where hosts fail: not dead
        whose = (
            f"links of {named(use).replace(' ', 's ', 1)}"
            if _many(use)
            else f"link of {named(use)}"
        )
        return f"the {whose}, {_way(use)}"
    return use.name


def ports(use: Use) -> str:
    """`the server's port`, or several."""
    return "the servers' ports" if _many(use) else "the server's port"


def named(use: Use) -> str:
    """Without the direction, its numbers in words."""
    bare = use.name.removesuffix(" up").removesuffix(" down")
    return _NUMBERS.sub(lambda found: numbers(found[0]), bare)


def busy(use: Use) -> str:
    """How much of it was used."""
    if use.kind in ("port", "link", "shared"):
        return f"{percent(use.share)} of the bandwidth used"
    return f"{percent(use.share)} of the time"


def _many(use: Use) -> bool:
    return any(mark in use.name for mark in (",", ".."))


def _way(use: Use) -> str:
    return "sending" if use.name.endswith(" up") else "receiving"
