"""The Spark session of a job: on this machine unless a master is given, without output, removed completely at the end.

The job sends this package to the executors. They need Python with pyspark, pyarrow and psycopg of their own.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sys
import tempfile
import threading
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import shoal_spark
from shoal_spark.jobs.step_writer import StepSource
from shoal_spark.jobs.summary import JobError, Progress
from shoal_spark.source import ShoalDataSource

T = TypeVar("T")
LOOK = 0.25  # seconds between two looks at how far Spark is
LET_GO = 60.0  # seconds that an interrupted write has to undo its changes
_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""
_PYTHON_ERROR = re.compile(r"^(?:[\w]+\.)*(?P<kind>\w*(?:Error|Exception|Violation|Mismatch|\w+)): (?P<text>.+)$")
_FRAME = re.compile(r"^\s+File \".*\", line \d+")


@contextlib.contextmanager
def spark_session(master: str, settings: Sequence[str] = (), verbose: bool = False) -> Iterator[SparkSession]:
    """A session with both data sources. `settings`: Spark's, each 'name=value'. Raises JobError."""
    given = {}
    for item in settings:
        name, separator, value = item.partition("=")
        if not separator:
            raise JobError(f'"{item}" is not of the form NAME=VALUE, as --conf wants it')
        given[name.strip()] = value
    # Only a session of our own is configured and stopped.
    running = SparkSession.getActiveSession()
    with tempfile.TemporaryDirectory(prefix="shoal-pipeline-") as folder, _python(sys.executable):
        spark = running or _start(master, given, pathlib.Path(folder), verbose)
        try:
            if running is None:
                spark.sparkContext.addPyFile(str(_package(pathlib.Path(folder))))
            spark.dataSource.register(ShoalDataSource)
            spark.dataSource.register(StepSource)
            yield spark
        finally:
            if running is None:
                spark.stop()


def _start(master: str, given: dict[str, str], folder: pathlib.Path, verbose: bool) -> SparkSession:
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING.format(level="warn" if verbose else "off"), encoding="utf-8")
    builder = SparkSession.builder.master(master).appName("shoal pipeline")
    java = f"-Dlog4j2.configurationFile={logging.as_uri()} -Dderby.system.home={folder}"
    ours = {
        "spark.ui.enabled": "false" if master.startswith("local") else "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": str(folder),
    }
    if master.startswith("local"):
        ours["spark.driver.host"] = ours["spark.driver.bindAddress"] = "127.0.0.1"
    for name, value in {**ours, **given}.items():
        builder = builder.config(name, value)
    said = folder / "stderr"
    try:
        with contextlib.nullcontext() if verbose else _redirect_stderr(said):
            return builder.getOrCreate()
    except Exception as error:
        last = [line for line in said.read_text(errors="replace").splitlines() if line][-1:] if said.exists() else []
        raise JobError(f"Spark does not start on {master}: {one_line(error)} {' '.join(last)}".rstrip()) from error


@contextlib.contextmanager
def _redirect_stderr(path: pathlib.Path) -> Iterator[None]:
    """Redirects the standard error of processes that start meanwhile, because no log setting silences Spark's JVM. This
    process keeps its own."""
    before = sys.stderr
    with path.open("wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        kept = os.dup(2)
        try:
            with open(kept, "w", encoding=before.encoding, errors="replace", buffering=1, closefd=False) as ours:
                os.dup2(file.fileno(), 2)
                sys.stderr = ours
                yield
        finally:
            os.dup2(kept, 2)
            sys.stderr = before
            os.close(kept)


@contextlib.contextmanager
def _python(executable: str) -> Iterator[None]:
    """Sets the Python of workers on this machine to the same Python, unless the user has set one."""
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ.setdefault("PYSPARK_PYTHON", executable)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYSPARK_PYTHON", None)


def _package(folder: pathlib.Path) -> pathlib.Path:
    """This package in an archive."""
    root = pathlib.Path(shoal_spark.__file__).parent
    path = folder / f"shoal_spark-{uuid.uuid4().hex[:8]}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, str(file.relative_to(root.parent)))
    return path


def run_with_progress(spark: SparkSession, progress: Progress, what: str, work: Callable[[], T]) -> T:
    """Runs work on Spark, and shows the progress of its tasks. An interrupt cancels the work, waits until it is rolled
    back, and is then raised. Raises JobError for Spark's errors."""
    context = spark.sparkContext
    group = uuid.uuid4().hex
    results: list[T] = []
    errors: list[BaseException] = []

    jvm = spark._jvm
    assert jvm is not None

    def run() -> None:
        # Spark knows sessions by threads, and data sources by sessions.
        SparkSession._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)
        context.setJobGroup(group, what, interruptOnCancel=True)
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK):
            done, total = _tasks(spark, group)
            if total:
                progress.show(what, done, total)

    # This thread makes no call meanwhile, because an interrupt in the middle of a call of the JVM would lose its
    # answer.
    thread, looking = threading.Thread(target=run, daemon=True), threading.Thread(target=look, daemon=True)
    progress.show(what, 0, 0)
    thread.start()
    looking.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        thread.join(LET_GO)
        raise
    finally:
        ended.set()
        looking.join(LET_GO)
    if errors:
        error = errors[0]
        if isinstance(error, JobError | KeyboardInterrupt):
            raise error
        raise JobError(one_line(error)) from error
    return results[0]


def _tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    """The numbers of finished tasks, and of known ones."""
    tracker = spark.sparkContext.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        found = tracker.getJobInfo(job)
        for number in found.stageIds if found is not None else ():
            stage = tracker.getStageInfo(number)
            if stage is not None:
                done += stage.numCompletedTasks
                total += stage.numTasks
    return done, total


def one_line(error: BaseException) -> str:
    """The message of a Spark error in one line, without the traces of the processes."""
    if not isinstance(error, PySparkException | Py4JJavaError):
        return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    if isinstance(error, Py4JJavaError):
        text = _causes(error)
    lines = text.splitlines()
    # The innermost Python error: the line that follows the frames of a trace.
    for place, line in enumerate(lines):
        if place and _FRAME.match(lines[place - 1]) is None and not lines[place - 1].startswith("    "):
            continue
        found = _PYTHON_ERROR.match(line)
        if found is not None and place and lines[place - 1].startswith(" "):
            return found["text"].strip()
    return next((line.strip() for line in lines if line.strip()), type(error).__name__)


def _causes(error: Py4JJavaError) -> str:
    """The messages of a Java error and of what caused it."""
    texts: list[str] = []
    cause = error.java_exception
    while cause is not None and len(texts) < 10:
        texts.append(str(cause.getMessage() or cause.toString()))
        cause = cause.getCause()
    return "\n".join(texts)
