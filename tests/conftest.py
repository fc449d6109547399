"""What every test needs: BLAS with one thread, so that tests leave the other cores alone.

Output as in a pipe, whatever a terminal is as wide as. And Ctrl-C: who is started in the background
by a shell ignores it, and so would the commands that tests interrupt.
"""

import os
import signal

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

os.environ.pop("COLUMNS", None)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
