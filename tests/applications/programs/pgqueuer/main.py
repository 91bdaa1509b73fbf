"""pgqueuer: its schema installed, jobs enqueued, deduplicated, worked, failed; a schedule; statistics; removed."""

import asyncio
import os
import subprocess
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

DSN = os.environ["DATABASE_URL"]


def command(*words: str) -> None:
    subprocess.run(["pgq", *words], check=True)


async def main() -> None:
    done: list[bytes | None] = []
    connection = await asyncpg.connect(DSN)
    application = PgQueuer(AsyncpgDriver(connection))

    @application.entrypoint("work")
    async def work(job: Job) -> None:
        done.append(job.payload)

    @application.entrypoint("bad")
    async def bad(job: Job) -> None:
        raise ValueError("as planned")

    queries = Queries(AsyncpgDriver(await asyncpg.connect(DSN)))
    payloads: list[bytes | None] = [str(number).encode() for number in range(31)]
    assert len(await queries.enqueue(["work"] * 30 + ["bad"], payloads, [0] * 31)) == 31
    await queries.enqueue(["work"], [b"later"], [0], [timedelta(seconds=1)], dedupe_key=["k"])
    try:
        await queries.enqueue(["work"], [b"again"], [0], dedupe_key=["k"])
    except Exception as error:
        assert "uplicate" in type(error).__name__, error
    else:
        raise AssertionError("a key was used twice")
    running = asyncio.create_task(application.run(dequeue_timeout=timedelta(seconds=1)))
    for _ in range(150):
        if len(done) == 31 or running.done():
            break
        await asyncio.sleep(0.2)
    application.shutdown.set()
    await asyncio.wait_for(running, 30)
    assert sorted(done) == sorted([*payloads[:30], b"later"]), done
    assert not [size for size in await queries.queue_size() if size.status == "queued" and size.count]
    counts = {(entry.entrypoint, entry.status): entry.count for entry in await queries.log_statistics(100)}
    assert counts, counts


if __name__ == "__main__":
    command("install")
    command("verify", "--expect", "present")
    command("upgrade")
    asyncio.run(main())
    command("uninstall")
