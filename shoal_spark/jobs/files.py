"""Files by patterns, in any file system that Spark's Hadoop supports: a path, a folder with all of its files, a
glob."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from shoal_spark.jobs.session import one_line
from shoal_spark.jobs.summary import JobError

_PACKED = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".snappy", ".deflate")
_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".tab": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
FORMATS = ("csv", "json", "parquet")
_SECRET = re.compile(r"(?<=://)[^/@]+@")


@dataclass(frozen=True)
class DataFile:
    """`modified`: milliseconds since 1970. `path` is a URL."""

    path: str
    bytes: int
    modified: int


@dataclass(frozen=True)
class FoundFiles:
    """The files that match the patterns of a job. `base`: the folder whose subfolders are named column=value, or ''."""

    files: tuple[DataFile, ...]
    base: str = ""

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def without_credentials(path: str) -> str:
    """A path for messages, without credentials."""
    return _SECRET.sub("", path.removeprefix("file:"))


def find_files(spark: SparkSession, patterns: Sequence[str]) -> FoundFiles:
    """The files, each once, in the order of the patterns and of their names. Raises JobError."""
    files: dict[str, DataFile] = {}
    folders = []
    for pattern in patterns:
        try:
            system, statuses = _glob(spark, pattern)
            for status in statuses:
                if status.isDirectory():
                    folders.append(status.getPath().toString())
                for file in sorted(_files_below(system, status), key=lambda item: item.path):
                    files.setdefault(file.path, file)
        except Py4JJavaError as error:
            raise JobError(f"{without_credentials(pattern)} cannot be read: {one_line(error)}") from error
        if not statuses:
            raise JobError(f"there is no file {without_credentials(pattern)}")
    if not files:
        raise JobError(f"there are no files in {', '.join(map(without_credentials, patterns))}")
    nested = len(patterns) == len(folders) == 1 and any("=" in path[len(folders[0]) :] for path in files)
    return FoundFiles(tuple(files.values()), folders[0] if nested else "")


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's FileSystem of a path, and the path there."""
    jvm, context = spark._jvm, spark._jsc
    assert jvm is not None
    there = jvm.org.apache.hadoop.fs.Path(path)
    return there.getFileSystem(context.hadoopConfiguration()), there


def _glob(spark: SparkSession, pattern: str) -> tuple[Any, list[Any]]:
    system, there = file_system(spark, pattern)
    return system, list(system.globStatus(there) or ())


def _files_below(system: Any, status: Any) -> Iterator[DataFile]:
    if status.isFile():
        yield DataFile(status.getPath().toString(), status.getLen(), status.getModificationTime())
        return
    root = status.getPath().toString()
    listed = system.listFiles(status.getPath(), True)
    while listed.hasNext():
        item = listed.next()
        path = item.getPath().toString()
        hidden = any(part.startswith(("_", ".")) for part in path[len(root) :].strip("/").split("/"))
        if not hidden:
            yield DataFile(path, item.getLen(), item.getModificationTime())


def format_of(files: Sequence[DataFile]) -> str:
    """The format, from the ends of the names. Raises JobError for an unknown format, or several."""
    found = {_format_of(file.path) for file in files}
    if len(found) != 1 or None in found:
        raise JobError(f"the files' names do not say what they are: give --format {', '.join(FORMATS)}")
    return str(found.pop())


def _format_of(path: str) -> str | None:
    name = _strip_compression(path)
    return next((kind for end, kind in _FORMATS.items() if name.endswith(end)), None)


def _strip_compression(path: str) -> str:
    name = path.lower()
    packed = next((end for end in _PACKED if name.endswith(end)), "")
    return name.removesuffix(packed)


def is_tab_separated(files: Sequence[DataFile]) -> bool:
    """Whether the names mean that fields are separated by tabs."""
    return all(_strip_compression(file.path).endswith((".tsv", ".tab")) for file in files)
