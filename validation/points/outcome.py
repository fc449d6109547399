"""That a point is not run, and why."""

from validation.finding import Verdict


class NotRunError(Exception):
    """A point that describes something that varsim does not simulate, or not yet."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(why)
        self.verdict = verdict
        self.why = why
