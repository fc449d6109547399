# ruff: noqa: F821
"""What the interpreter in the browser does first; `LIBRARY` is set before."""

import io
import os
import sys
import zipfile

zipfile.ZipFile("/app/app.zip").extractall("/tmp/app")
sys.path.insert(0, "/tmp/app")
# matplotlib looks for its data beside itself, in the archive of the library.
data = zipfile.ZipFile(LIBRARY).read("matplotlib/mpl-data.zip")
zipfile.ZipFile(io.BytesIO(data)).extractall(f"{LIBRARY}/matplotlib/mpl-data")
os.access = lambda *_, **__: True  # everybody may do everything here; the system does not say so
os.environ["MPLCONFIGDIR"] = "/tmp/home"

import varsim  # noqa: E402


def play(text):
    """Run a scenario: what is wrong with it, or its page, after a line that says so."""
    try:
        result = varsim.load(text).run()
    except (varsim.ScenarioError, varsim.DeadlockError) as error:
        print(error)
        return
    if not hasattr(result, "save"):  # of a sweep, or a plan
        print(result)
        return
    page = result.save("/tmp/report")
    print("Simulated: here is the report.\nPAGE")
    print(page.read_text(encoding="utf-8"))
