"""Run independent audit tools on this package, and compare their findings with its claims.

``make witnesses`` creates the environment .venv-witnesses from PyPI and runs every part in it. With
``ARGS="accounting samplers"``, it runs only these parts. RECORDER is the path of a clone of
ObliviousAI/dp-recorder, which is not on any package index. Without it, that part is skipped.

Each finished part replaces its rows in witnesses.csv and its table in docs/user_guide/witnesses.md.
All randomness is seeded. The exit code is 1 if a tool finds a larger loss than claimed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # this folder, and the audit's cases in tests

from witnesses_table import ABOVE, COLUMNS, MissingError, read, write  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(COLUMNS)}; by default all")
    parser.add_argument("--recorder", help="clone of ObliviousAI/dp-recorder")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.recorder:
        sys.path.insert(0, str(Path(options.recorder) / "src"))
    for part in options.parts or COLUMNS:
        run(part)
    above = [line for line in read() if line.verdict == ABOVE]
    for line in above:
        print(f"ABOVE: {line.tool}, {line.subject}: {line.found:g}, claimed {line.claimed:g}")
    return 1 if above else 0


def run(part):
    """Run a part and write its rows, or keep the committed rows if one of its tools is missing."""
    start = perf_counter()
    try:
        module = importlib.import_module(f"witnesses_{part}")
    except ImportError as error:
        print(f"{part}: skipped, since {error.name} is not there", flush=True)
        return
    rows = []
    try:
        for line in module.rows():
            rows.append(line)
            print(f"{line.tool}, {line.subject}: {line.measure} {line.found:.5g}, {line.verdict}",
                  file=sys.stderr, flush=True)  # fmt: skip
    except MissingError as error:
        print(f"{part}: skipped, since {error} is not there", flush=True)
        return
    write(part, rows)
    print(f"{part}: {len(rows)} rows in {perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
