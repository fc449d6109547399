"""What a run leaves beside its page."""

from typing import Final

FILES: Final = {
    "summary.csv": "every measure of every strategy, with its interval",
    "summary.json": "the same, with seed and versions",
    "updates.csv": "one row per gradient: when it was read, computed and applied, how stale it was",
    "spans.csv": "one row per stretch of time that a worker spent on one activity",
    "steps.csv": "one row per update of the model",
    "links.csv": "one row per link: what it carried, and as what share of what it could",
    "evaluations.csv": "loss and accuracy, each time they were measured",
    "scenario.yaml": "the scenario, defaults written out",
    "trace.json.gz": "all workers' time, to look at in ui.perfetto.dev",
}

OF_FAILURES: Final = {"lives.csv": "one row per attempt of a job, from a start to the next"}
OF_SENDS: Final = {"sends.csv": "what workers sent while they computed, in the first replication"}
