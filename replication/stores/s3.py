"""A changelog store in a bucket of Amazon S3, or of a compatible service (MinIO, Ceph, R2), through obstore.

    <prefix><name>                    an object
    <prefix><name>=<random>           a large file during its upload (a name has no '=')

A put is one PUT with `If-None-Match: *`: of two writers one wins. A multipart upload of obstore has no such condition,
so a large file first goes to a temporary name, and the service then copies it to its name, on the condition that there
is none. After a crash the temporary object is in the same folder, invisible in listings, and is deleted with it.

Endpoint and credentials come from the environment, as obstore reads it: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_PROFILE's web identity, the machine's role. AWS_COPY_IF_NOT_EXISTS selects the
conditional copy of services that differ from S3. Messages of the service are not passed on, because they may repeat an
access key: errors have its status and its code.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store as Bucket

from replication.interface import (
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores.call_deadlines import Calls, Deadline, get_each
from replication.stores.names import check_folder, check_name, is_name

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config

PIECE = 8 << 20  # bytes; of a part of an upload, and of a request for a piece of a file
PARTS_AT_ONCE = 4
LARGE = 16 << 20  # bytes from which on a file is uploaded in parts
MAX_COPY = 5 << 30  # bytes of one copy by the service
COPY_RATE = 20 << 20  # bytes a second that a copy by the service certainly reaches
PAGE = 1000  # objects of one page of a listing, and of one bulk deletion
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_FULL = {"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientCapacity", "507"}

T = TypeVar("T")
Paths = list[str]  # in the class `list` is the method


class S3Store:
    """A ChangelogStore in a bucket. `prefix` is '' or ends in '/'; `timeout` in seconds."""

    def __init__(self, bucket: str, prefix: str = "", *, timeout: float = 10.0) -> None:
        self._url = f"s3://{bucket}/{prefix}".rstrip("/")
        self._prefix = prefix
        self._calls = Calls(self._url, timeout)
        config: S3Config = {}
        if "AWS_COPY_IF_NOT_EXISTS" not in os.environ:
            config["copy_if_not_exists"] = "multipart"
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        client: ClientConfig = {
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=timeout),
            # A copy of gigabytes is one request: our own deadlines are the ones that end calls.
            "timeout": timedelta(seconds=timeout + MAX_COPY / COPY_RATE),
        }
        self._bucket = Bucket(
            bucket,
            config=config,
            client_options=client,
            retry_config={
                "max_retries": 3,
                "retry_timeout": timedelta(seconds=timeout),
                "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1)},
            },
        )

    @property
    def url(self) -> str:
        return self._url

    async def put(self, name: str, data: bytes) -> None:
        path = self._prefix + check_name(name)
        async with self._calls.begin():
            await self._ask(name, obstore.put_async(self._bucket, path, data, mode="create"))

    async def append(self, name: str, data: bytes) -> None:
        await self.put(name, data)

    async def put_file(self, name: str, path: str) -> None:
        size = os.path.getsize(path)
        if size <= LARGE:
            with open(path, "rb") as file:
                await self.put(name, await asyncio.to_thread(file.read))
            return
        if size > MAX_COPY:
            raise self._calls.unavailable(f"{name} is larger than the 5 GiB that can be copied at once")
        target = self._prefix + check_name(name)
        incoming = f"{target}={secrets.token_hex(16)}"
        async with self._calls.begin() as deadline:
            try:
                upload = obstore.put_async(
                    self._bucket,
                    incoming,
                    _pieces(path, deadline),
                    use_multipart=True,
                    chunk_size=PIECE,
                    max_concurrency=PARTS_AT_ONCE,
                )
                await self._ask(name, upload)
                deadline.extend(size / COPY_RATE)
                await self._ask(name, obstore.copy_async(self._bucket, incoming, target, overwrite=False))
            finally:
                await self._drop(incoming)

    async def get(self, name: str) -> bytes:
        path = self._prefix + check_name(name)
        async with self._calls.begin():
            found = await self._ask(name, obstore.get_async(self._bucket, path))
            return bytes(await self._ask(name, found.bytes_async()))

    async def get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        return await get_each(self.get, names)

    async def get_file(self, name: str, path: str) -> None:
        source = self._prefix + check_name(name)
        with open(path, "wb") as file:
            async with self._calls.begin() as deadline:
                found = await self._ask(name, obstore.get_async(self._bucket, source))
                size = found.meta["size"]
                if size <= PIECE:
                    file.write(bytes(await self._ask(name, found.bytes_async())))
                    return
                del found  # not read: pieces are requested one by one, so that each has its deadline
                for start in range(0, size, PIECE):
                    end = min(start + PIECE, size)
                    piece = obstore.get_range_async(self._bucket, source, start=start, end=end)
                    await asyncio.to_thread(file.write, await self._ask(name, piece))
                    deadline.extend()

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        check_folder(prefix)
        async for path, size in self._walk(prefix, after):
            if path > after and is_name(path):  # obstore drops the '/' at the end of `after`
                yield ObjectInfo(path, size)

    async def _walk(self, prefix: str, after: str = "") -> AsyncIterator[tuple[str, int]]:
        """Lists everything below the folder, names without the store's prefix, by name."""
        folder = self._prefix + prefix
        # The service is asked without the '/' of the folder, and may show its neighbours.
        offset = self._prefix + after if after else None
        pages = obstore.list(self._bucket, folder.rstrip("/") or None, offset=offset, chunk_size=PAGE)
        while True:
            async with self._calls.begin():
                try:
                    page = await anext(pages)
                except StopAsyncIteration:
                    return
                except (BaseError, OSError, ValueError) as error:
                    raise self._error(prefix, error) from None
            for found in page:
                if found["path"].startswith(folder):
                    yield found["path"][len(self._prefix) :], found["size"]

    async def delete(self, name: str) -> None:
        path = self._prefix + check_name(name)
        async with self._calls.begin():
            await self._delete([path])

    async def delete_folder(self, prefix: str) -> None:
        check_folder(prefix)
        paths: Paths = []
        async for path, _ in self._walk(prefix):
            paths.append(self._prefix + path)
            if len(paths) == PAGE:
                await self._delete_page(paths)
                paths = []
        await self._delete_page(paths)

    async def _delete_page(self, paths: Paths) -> None:
        if paths:
            async with self._calls.begin():
                await self._delete(paths)

    async def _delete(self, paths: Paths) -> None:
        try:
            await self._ask("", obstore.delete_async(self._bucket, paths))
        except ObjectMissingError:
            return  # already deleted; not all services report that

    async def close(self) -> None:
        self._calls.close()

    async def _drop(self, path: str) -> None:
        """Removes a finished or failed upload; if that fails, it is deleted with its folder."""
        try:
            async with asyncio.timeout(self._calls.timeout):
                await obstore.delete_async(self._bucket, path)
        except (BaseError, OSError):
            return

    async def _ask(self, name: str, answer: Awaitable[T]) -> T:
        """Awaits obstore; its errors become the store's."""
        try:
            return await answer
        except (BaseError, OSError, ValueError) as error:
            raise self._error(name, error) from None

    def _error(self, name: str, error: Exception) -> Exception:
        text = str(error)
        code = _CODE.search(text)
        status = _STATUS.search(text)
        told = code[1] if code else status[1] if status else ""
        if isinstance(error, AlreadyExistsError):
            return ObjectExistsError(name)
        if isinstance(error, FileNotFoundError) and told != "NoSuchBucket":
            return ObjectMissingError(name)
        if told in _FULL:
            return StoreFullError(f"{self._url}: {told}")
        if told:
            return StoreUnavailableError(f"{self._url}: refused with {status[1] if status else ''} {told}".rstrip())
        return StoreUnavailableError(f"{self._url}: no answer ({type(error).__name__})")


async def _pieces(path: str, deadline: Deadline) -> AsyncIterator[bytes]:
    """The file in pieces; each sent piece counts as progress of the upload."""
    with open(path, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            deadline.extend()
            yield piece
