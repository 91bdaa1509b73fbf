"""URLs of stores: what is taken, what is refused, and that no credential comes out again."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import SqlError
from replication.interface import StoreUnavailableError
from replication.stores import open_store

GOOD = [
    "file:///var/lib/shoal",
    "file:///with%20space",
    "s3://bucket",
    "s3://bucket/some/prefix",
    "log://127.0.0.1:7301",
    "log://[::1]:7301/prefix",
    "log://store.example.com:7301/a/b",
    "quorum(3,3,2):file:///a,file:///b,file:///c",
    "quorum(2,2,1):s3://bucket/x,log://h:1,file:///c,-file:///d",
    "quorum(1,1,1):file:///a",
]

BAD = [
    ("", "file:///directory, s3://bucket/prefix"),
    ("nonsense", "file:///directory, s3://bucket/prefix"),
    ("http://host:1/", "file:///directory, s3://bucket/prefix"),
    ("file:relative", "whole path"),
    ("file://host/dir", "whole path"),
    ("file:///", "whole path"),
    ("file:///a%00b", "whole path"),
    ("s3://", "bucket's name"),
    ("s3://Not_A_Bucket/x", "bucket's name"),
    ("s3://bucket/../other", "a prefix"),
    ("log://host", "log://host:port"),
    ("log://:7301", "log://host:port"),
    ("log://host:0", "log://host:port"),
    ("log://host:123456", "file:///directory, s3://bucket/prefix"),
    ("log://host:1/a/../b", "a prefix"),
    ("quorum:file:///a", "quorum(E,W,A):"),
    ("quorum(3,2):file:///a,file:///b", "quorum(E,W,A):"),
    ("quorum(2,2,1):", "quorum(E,W,A):"),
    ("quorum(3,3,2):file:///a,file:///b", "1 <= A <= W <= E <= the number"),
    ("quorum(2,2,2):file:///a,file:///b,", "file, s3 or log URL"),
    ("quorum(2,2,0):file:///a,file:///b", "1 <= A <= W <= E"),
    ("quorum(2,1,2):file:///a,file:///b", "1 <= A <= W <= E"),
    ("quorum(1,2,1):file:///a,file:///b", "1 <= A <= W <= E"),
    ("quorum(2,2,1):file:///a,-file:///b", "1 <= A <= W <= E"),
    ("quorum(1,1,1):quorum(1,1,1):file:///a", "file, s3 or log URL"),
    ("quorum(2,2,1):file:///a,file:///a", "same member twice"),
    ("quorum(2,2,1):file:///a,nonsense", "file:///directory"),
]


@pytest.mark.parametrize("url", GOOD)
async def test_a_good_url_comes_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    store = open_store(url)
    assert store.url == url
    await store.close()


@pytest.mark.parametrize(("url", "expected"), BAD)
async def test_a_bad_url_says_what_was_expected(url: str, expected: str) -> None:
    with pytest.raises(SqlError) as refused:
        open_store(url)
    assert refused.value.sqlstate == "22023"
    assert expected in f"{refused.value.message} {refused.value.hint}"


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:hushhush@bucket/x",
        "log://user:hushhush@host:7301",
        "log://hushhush@host:7301",
        "s3://bucket/x?secret=hushhush",
        "nonsense://user:hushhush@host",
        "quorum(1,1,1):log://user:hushhush@host:7301",
        "quorum(1):log://user:hushhush@host:7301,log://other:hushhush@host:7302",
    ],
)
async def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(SqlError) as refused:
        open_store(url)
    assert refused.value.sqlstate == "22023"
    assert "hushhush" not in f"{refused.value.message} {refused.value.hint}"


async def test_errors_of_s3_tell_no_credentials(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("s3://no-such-bucket/x", timeout=5.0)
    with pytest.raises(StoreUnavailableError, match="404 NoSuchBucket") as refused:
        await store.get("a")
    with pytest.raises(StoreUnavailableError, match="404 NoSuchBucket"):
        await store.put("a", b"")
    assert refused.value.__cause__ is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailableError, match="no answer") as dead:
        await open_store(s3, timeout=1.0).put("a", b"")
    for error in (refused.value, dead.value):
        assert "AKIA" not in str(error) and "hushhush" not in str(error)


@pytest.mark.parametrize(
    ("url", "secret", "allowed", "opens"),
    [
        ("log://127.0.0.1:1", "hushhush", "", True),
        ("log://localhost:1", "hushhush", "", True),
        ("log://[::1]:1", "hushhush", "", True),
        ("log://10.0.0.7:1", "", "", True),  # nothing is to be hidden
        ("log://10.0.0.7:1", "hushhush", "", False),
        ("log://store:1/prefix", "hushhush", "", False),
        ("quorum(2,2,1):log://127.0.0.1:1,log://10.0.0.7:1", "hushhush", "", False),
        ("log://10.0.0.7:1", "hushhush", "yes", False),
        ("log://10.0.0.7:1", "hushhush", "allow", True),
        ("logs://10.0.0.7:1", "hushhush", "", True),
    ],
)
async def test_a_secret_does_not_leave_the_machine_unencrypted(
    url: str, secret: str, allowed: str, opens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_STORE_SECRET", secret)
    monkeypatch.setenv("SHOAL_STORE_PLAINTEXT", allowed)
    if opens:
        await open_store(url).close()
        return
    with pytest.raises(SqlError, match="unencrypted") as refused:
        open_store(url)
    assert refused.value.sqlstate == "28000" and "hushhush" not in str(refused.value)


async def test_a_secret_comes_from_a_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_STORE_SECRET", raising=False)
    monkeypatch.setenv("SHOAL_STORE_SECRET_FILE", str(tmp_path / "secret"))
    with pytest.raises(SqlError, match="cannot read the secret") as missing:
        open_store("log://127.0.0.1:1")
    assert missing.value.sqlstate == "58P01"
    (tmp_path / "secret").write_text("")
    with pytest.raises(SqlError, match="holds no secret"):
        open_store("log://127.0.0.1:1")
    (tmp_path / "secret").write_text("hush hush")
    with pytest.raises(SqlError, match="printable ASCII") as bad:
        open_store("log://127.0.0.1:1")
    assert "hush" not in str(bad.value)
    (tmp_path / "secret").write_text("hushhush\n")
    store = open_store("log://127.0.0.1:1")
    assert "hushhush" not in store.url
