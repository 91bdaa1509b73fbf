"""Runs every trial for its share of a budget, and writes docs/guarantees.md with today's figures.

    make torture BUDGET=20m
    python -m tests.torture --budget 20m [--only isolation] [--seed 7]

Each trial gets its minimum time, and its share of the time that is left beyond the minimum of all remaining trials. So
the run keeps to the budget if the budget covers all minimum times. With --only, the figures of other trials stay in the
page. Exits with 1 if a promise was broken, if a planted fault was not noticed, or if a trial tried too little.
"""

from __future__ import annotations

import argparse
import datetime
import random
import re
import sys
import time
import traceback
from functools import partial

from tests.torture import page
from tests.torture.all import TRIALS
from tests.torture.trial import Result, Trial, share

_UNITS = {"s": 1, "m": 60, "h": 3600}


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f'"{text}" is no time: 90s, 20m or 2h')
    return float(found[1]) * _UNITS[found[2] or "s"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--budget", type=_seconds, default=1200.0, help="90s, 20m, 2h (default: 20m)")
    parser.add_argument("--only", default="", help="run only trials with this text in their names")
    parser.add_argument("--seed", type=int, help="repeat the choices of a run")
    parser.add_argument("--list", action="store_true", help="list the trials and exit")
    options = parser.parse_args()
    chosen = [trial for trial in TRIALS if options.only in trial.name]
    if options.list or not chosen:
        for trial in TRIALS:
            print(f"{trial.name:24} {trial.promise}")
        return 0 if options.list else 2
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"seed {seed}, {options.budget:.0f} s", flush=True)
    if (least := sum(trial.least for trial in chosen)) > options.budget:
        print(f"these trials take {least:.0f} s at the least", flush=True)
    results: dict[str, Result] = {}
    began = time.monotonic()
    remaining = sorted(chosen, key=lambda trial: trial.exact)
    while remaining:
        left = options.budget - (time.monotonic() - began)
        seconds = share(remaining[0], remaining, left)
        trial = remaining.pop(0)
        results[trial.name] = result = _try(trial, seconds, seed, began)
        if lack := trial.lack(result, options.budget):
            result.problems.append(lack)
            print(f"{trial.name}: {lack}", flush=True)
    print(f"{time.monotonic() - began:.0f} of {options.budget:.0f} s")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    page.write(TRIALS, results, today, seed)
    print()
    print(page.table(chosen, results, today))
    return 0 if all(result.good for result in results.values()) else 1


def _try(trial: Trial, seconds: float, seed: int, began: float) -> Result:
    def tell(name: str, text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {name}: {text}", flush=True)

    tell(trial.name, f"{seconds:.0f} s")
    begins = time.monotonic()
    try:
        result = trial.run(seconds, seed, partial(tell, trial.name))
    except Exception as error:
        traceback.print_exc()
        result = Result(problems=[f"broken off: {error!r}"])
    tell(trial.name, f"took {time.monotonic() - begins:.0f} of {seconds:.0f} s")
    for problem in result.problems:
        tell(trial.name, f"WRONG: {problem}")
    for name, caught in result.caught.items():
        tell(trial.name, f"planted: {name}: {'caught' if caught else 'NOT NOTICED'}")
    return result


if __name__ == "__main__":
    sys.exit(main())
