"""The stores under test: every kind, fresh for each test, over servers that the whole run shares."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import boto3
import pytest

from replication.interface import ChangelogStore
from replication.stores import open_store
from replication.stores.regional import RegionalStore
from tests.replication.memory_store import MemoryStore
from tests.replication.stores.certificates import make_certificate
from tests.replication.stores.log_process import LogProcess
from tests.s3_service import s3_service

BUCKET = "changelogs"


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The URL of an S3 service on this machine, with the bucket."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = s3_service()
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="id", aws_secret_access_key="key", region_name="us-east-1"
    )
    client.create_bucket(Bucket=BUCKET)
    yield endpoint
    server.stop()


@pytest.fixture
def s3(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty prefix of the bucket, with the environment set."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAPLAINTOSEE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hushhush")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return f"s3://{BUCKET}/{secrets.token_hex(4)}"


@pytest.fixture(scope="session")
def log_servers() -> Iterator[list[LogProcess]]:
    """Three log stores that every test leaves running; a test uses a prefix of its own."""
    with LogProcess() as first, LogProcess() as second, LogProcess() as third:
        yield [first, second, third]


@pytest.fixture(scope="session")
def _tls_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LogProcess, str]]:
    made = make_certificate(tmp_path_factory.mktemp("tls"), "store")
    with LogProcess(options=["--tls-cert", made.cert, "--tls-key", made.key]) as process:
        yield process, made.cert


@pytest.fixture
def tls_server(_tls_process: tuple[LogProcess, str], monkeypatch: pytest.MonkeyPatch) -> LogProcess:
    """A log store behind TLS, which the environment says is to be trusted."""
    monkeypatch.setenv("SHOAL_STORE_TLS_CA", _tls_process[1])
    return _tls_process[0]


KINDS = [
    "memory", "regional", "file", "s3", "log", "logs", "quorum of files", "quorum of logs", "striped quorum of files",
]  # fmt: skip
Opener = Callable[[], ChangelogStore]


@pytest.fixture(params=KINDS)
async def another(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens one more handle on the test's store; all are closed at the end."""
    opened: list[ChangelogStore] = []
    url = _url(request, tmp_path)
    shared: dict[str, bytes] = {}
    copies: dict[str, bytes] = {}

    def opener() -> ChangelogStore:
        opened.append(open_store(url) if url else MemoryStore(shared))
        if request.param == "regional":
            opened.append(RegionalStore(opened[-1], MemoryStore(copies)))
        return opened[-1]

    yield opener
    for store in opened:
        await store.close()


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind = request.param
    prefix = secrets.token_hex(4)
    if kind == "file":
        return f"file://{tmp_path}/one"
    if kind == "s3":
        return str(request.getfixturevalue("s3"))
    if kind == "log":
        return f"{request.getfixturevalue('log_servers')[0].url}/{prefix}"
    if kind == "logs":
        return f"{request.getfixturevalue('tls_server').url}/{prefix}"
    if kind == "quorum of files":
        return "quorum(3,3,2):" + ",".join(f"file://{tmp_path}/{number}" for number in range(3))
    if kind == "striped quorum of files":
        return "quorum(4,3,3):" + ",".join(f"file://{tmp_path}/{number}" for number in range(5))
    if kind == "quorum of logs":
        servers = request.getfixturevalue("log_servers")
        return "quorum(3,2,2):" + ",".join(f"{server.url}/{prefix}" for server in servers)
    return ""


@pytest.fixture
def store(another: Opener) -> ChangelogStore:
    """The store under test, empty."""
    return another()
