"""SQLite's sqllogictest scripts, by record. Each file has a schema of its own (sqllogictest/runner.py)."""

from __future__ import annotations

import hashlib
import pathlib
import tarfile
import time

from sqllogictest.runner import run_file, scripts
from tests.conformance.suite import Outcome, Progress, Records, Target, cache, corpora


class LogicTest:
    """A record of a file is its line; what failed says why. Records that skipif and onlyif leave out are not counted.

    The whole part has 700,000 records, so they are kept by file: [number of records, {line: cause}].
    """

    name = "sqllogictest"
    title = "SQLite's sqllogictest, part"
    unit = "records"
    floor = 0.995
    seconds = 1800.0

    def _packed(self) -> pathlib.Path | None:
        place = corpora()
        packed = None if place is None else place / "sqllogictest.tar.xz"
        return packed if packed is not None and packed.exists() else None

    def missing(self) -> str:
        return "" if self._packed() is not None else "no sqllogictest.tar.xz in $SHOAL_CORPORA"

    def fetch(self) -> None:
        """Nothing."""

    def fingerprint(self) -> str:
        packed = self._packed()
        assert packed is not None
        return hashlib.sha256(packed.read_bytes()).hexdigest()[:12]

    def _files(self) -> tuple[pathlib.Path, list[pathlib.Path]]:
        packed = self._packed()
        assert packed is not None
        place = cache() / f"sqllogictest-{self.fingerprint()}"
        if not place.exists():
            with tarfile.open(packed) as archive:
                archive.extractall(place)
        return place, sorted(scripts([str(place)]), key=lambda path: path.stat().st_size)

    def run(self, target: Target, progress: Progress) -> Records:
        records: Records = {}
        place, files = self._files()
        done = 0
        began = time.monotonic()
        for number, path in enumerate(files, 1):
            if progress.left < 0:
                break
            tally = run_file(target.dsn(), path)
            causes = {line.split(":", 2)[1]: line.split(":", 2)[2].strip()[:300] for line in tally.failures}
            records[str(path.relative_to(place))] = [tally.records - tally.skipped, causes]
            done += tally.records - tally.skipped
            rate = done / (time.monotonic() - began)
            progress.step(number, len(files), f"files, {done} records, {rate:.0f} a second")
        return records

    def outcome(self, wanted: Records, got: Records, seconds: float) -> Outcome:
        failures: dict[str, str] = {}
        ceiling = 0
        for file, found in got.items():  # as far as it went
            count, expected = wanted[file]
            ceiling += count - len(expected)
            failures |= {f"{file}:{line}": cause for line, cause in found[1].items() if line not in expected}
        size = sum(count for count, _ in wanted.values())
        unit = self.unit if len(got) == len(wanted) else f"{self.unit}, {len(got)} of {len(wanted)} files in the time"
        passed = ceiling - len(failures)
        return Outcome(self.name, self.title, unit, size, ceiling, passed, self.floor, seconds, failures)
