"""procrastinate: the schema, jobs deferred and run, locks, retries, periodic tasks."""

import asyncio
import contextlib

import procrastinate

app = procrastinate.App(connector=procrastinate.PsycopgConnector())
sums: list[int] = []
ticks: list[int] = []


@app.task(name="add", queue="q", retry=2)
async def add(a: int, b: int) -> int:
    sums.append(a + b)
    return a + b


@app.task(name="fail", queue="q", retry=1)
async def fail() -> None:
    raise ValueError("as planned")


@app.periodic(cron="* * * * * */1")
@app.task(name="tick", queue="q")
async def tick(timestamp: int) -> None:
    ticks.append(timestamp)


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for number in range(20):
            await add.configure(priority=number).defer_async(a=number, b=1)
        await add.configure(lock="l", queueing_lock="ql", schedule_in={"seconds": 1}).defer_async(a=100, b=1)
        try:
            await add.configure(queueing_lock="ql").defer_async(a=100, b=1)
        except procrastinate.exceptions.AlreadyEnqueued:
            pass
        else:
            raise AssertionError("a queueing lock was taken twice")
        await fail.defer_async()
        cancelled = await add.configure(schedule_in={"days": 1}).defer_async(a=1, b=1)
        assert await app.job_manager.cancel_job_by_id_async(cancelled)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(app.run_worker_async(queues=["q"], concurrency=3), 6)
        assert sorted(sums) == [*range(1, 21), 101], sums
        assert ticks
        states = {job.id: job.status for job in await app.job_manager.list_jobs_async()}
        assert sorted(states.values()).count("failed") == 1, states
        assert states[cancelled] == "cancelled", states
        queues = await app.job_manager.list_queues_async()
        assert [queue["name"] for queue in queues] == ["q"], queues
        assert await app.job_manager.list_tasks_async()
        assert await app.job_manager.list_locks_async()
        await app.job_manager.delete_old_jobs(nb_hours=0, include_failed=True)
        await app.check_connection_async()
        assert not list(await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=60))


asyncio.run(main())
