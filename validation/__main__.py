"""`python -m validation`: varsim held against theory, other simulators and measurements."""

import os

from varsim.cli.console import Stopper

if __name__ == "__main__":
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # before numpy is imported: threads only slow it down
    from validation.command import app

    with Stopper():
        app(prog_name="python -m validation")
