"""Compute the error with other values of a number, relative to the error with its default value."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

MIN_GAIN = 0.01
"""A number is "free" if no other value increases an error by more than this ratio minus 1."""

Errors = Mapping[str, float]
Case = Callable[[int], Errors]
"""Function from a seed to errors, keyed by their column names in the table."""

Workload = Callable[[Path | None], Mapping[Any, Case]]
"""Function from the data directory to cases."""


class Tuned(NamedTuple):
    """Line of the ablation: a number, its workload, and alternative values."""

    module: str
    name: str
    workload: str
    others: Mapping[str, Any]

    def home(self, part: str) -> ModuleType:
        """Return the module of the number, given by its short or full name."""
        if self.module.startswith("skpublicdp."):
            return importlib.import_module(self.module)
        return importlib.import_module(f"skpublicdp.{part}.{self.module}")


@contextlib.contextmanager
def patched(part: str, tuned: Tuned, other: Any) -> Iterator[None]:
    """Set a number in its module and wherever it was imported; a dict sets several numbers."""
    prefix = f"skpublicdp.{part}."
    home = vars(tuned.home(part))
    holders = [vars(module) for name, module in sys.modules.items() if name.startswith(prefix)]
    if not any(holder is home for holder in holders):
        holders.append(home)
    undo = []
    for name, value in (other if isinstance(other, dict) else {tuned.name: other}).items():
        old_value = home[name]
        for holder in holders:
            if holder.get(name) is old_value:
                undo.append((holder, name, old_value))
                holder[name] = value
    try:
        yield
    finally:
        for holder, name, old_value in undo:
            holder[name] = old_value


def measure(cases: Mapping[Any, Case], seeds: int) -> tuple[pd.DataFrame, float]:
    """Return log errors, with a row for each seed and case, and the running times in seconds."""
    start = time.perf_counter()
    records = [
        {"seed": seed, "case": str(key), **case(zlib.crc32(f"{seed} {key}".encode()))}
        for seed in range(seeds)
        for key, case in cases.items()
    ]
    seconds = time.perf_counter() - start
    return np.log(pd.DataFrame(records).set_index(["seed", "case"]).clip(lower=1e-9)), seconds


def ablate(
    part: str,
    lines: Iterable[Tuned],
    workloads: Mapping[str, Workload],
    data_dir: Path | None,
    seeds: int,
    *,
    quick: bool,
) -> Iterator[dict[str, Any]]:
    """Yield a record with error ratios for each alternative value of each line.

    With `quick`, only four cases of each workload are measured.
    """
    own_errors: dict[str, tuple[pd.DataFrame, float]] = {}
    for tuned in lines:
        cases = workloads[tuned.workload](data_dir)
        if quick:
            cases = dict(list(cases.items())[:: len(cases) // 4 + 1])
        if tuned.workload not in own_errors:
            own_errors[tuned.workload] = measure(cases, seeds)
        own_logs, own_seconds = own_errors[tuned.workload]
        for label, other in tuned.others.items():
            with patched(part, tuned, other):
                other_logs, seconds = measure(cases, seeds)
            logs = (other_logs - own_logs).groupby("seed").mean()
            record = {"module": tuned.module, "name": tuned.name, "workload": tuned.workload,
                      "other": label}  # fmt: skip
            is_worse = False
            for name, values in logs.items():
                ratio, error = np.exp(values.mean()), values.std(ddof=1) / np.sqrt(seeds)
                record[name], record[f"{name} ±"] = ratio, error
                is_worse |= ratio > 1 + max(MIN_GAIN, 2 * error)
            yield {
                **record,
                "seconds": seconds / own_seconds,
                "verdict": "" if is_worse else "free",
            }
