"""Prefect: its database's migrations, its server, flows with tasks, deployments, schedules, variables, artifacts."""

import asyncio
import contextlib
import os
import subprocess
import time

from background import check_log, free_port, serve

DATABASE = os.environ["DATABASE_URL"].replace("postgresql:", "postgresql+asyncpg:")
os.environ["PREFECT_API_DATABASE_CONNECTION_URL"] = DATABASE
os.environ["PREFECT_HOME"] = os.path.abspath("home")
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "1"


def use() -> None:
    from prefect import flow, get_client, tags, task
    from prefect.artifacts import create_table_artifact
    from prefect.client.schemas.filters import FlowRunFilter, LogFilter
    from prefect.client.schemas.schedules import IntervalSchedule
    from prefect.concurrency.sync import concurrency
    from prefect.variables import Variable

    @task(retries=1, retry_delay_seconds=0)
    def add(a: int, b: int) -> int:
        return a + b

    @flow(log_prints=True)
    def inner(n: int) -> int:
        print("inside", n)
        return add(n, 1)

    @flow
    def outer() -> int:
        futures = [add.submit(n, n) for n in range(5)]
        create_table_artifact(key="sums", table=[{"n": 1}])
        with concurrency("limit", occupy=1):
            return sum(future.result() for future in futures) + inner(1)

    @flow
    def failing() -> None:
        raise ValueError("as planned")

    async def before() -> None:
        async with get_client() as client:
            await client.create_global_concurrency_limit(_limit())

    def _limit():
        from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate

        return GlobalConcurrencyLimitCreate(name="limit", limit=2)

    async def after() -> None:
        async with get_client() as client:
            runs = await client.read_flow_runs(flow_run_filter=FlowRunFilter(state={"type": {"any_": ["COMPLETED"]}}))
            assert len(runs) == 2, runs
            failed = await client.read_flow_runs(flow_run_filter=FlowRunFilter(state={"type": {"any_": ["FAILED"]}}))
            assert len(failed) == 1
            assert len(await client.read_task_runs()) >= 6
            found = await client._client.post("/flows/filter", json={"flows": {"name": {"like_": "oute"}}})
            assert len(found.json()) == 1, found.text
            flow_id = found.json()[0]["id"]
            deployment = await client.create_deployment(flow_id, "d", schedules=[])
            from datetime import timedelta

            schedule = IntervalSchedule(interval=timedelta(hours=1))
            await client.create_deployment_schedules(deployment, [(schedule, True)])
            run = await client.create_flow_run_from_deployment(deployment)
            await client.delete_flow_run(run.id)
            for path in ("/flow_runs/count", "/task_runs/count", "/flow_runs/paginate", "/artifacts/latest/filter"):
                answer = await client._client.post(path, json={})
                assert answer.status_code == 200, answer.text
            history = {
                "history_start": "2020-01-01T00:00:00Z",
                "history_end": "2100-01-01T00:00:00Z",
                "history_interval_seconds": 864000000,
            }
            answer = await client._client.post("/flow_runs/history", json=history)
            assert answer.status_code == 200, answer.text
            for _ in range(30):
                logs = await client.read_logs(LogFilter())
                if any("inside" in log.message for log in logs):
                    break
                await asyncio.sleep(0.5)
            else:
                raise AssertionError("no log of the flow's prints")

    asyncio.run(before())
    Variable.set("v", {"a": 1})
    assert Variable.get("v") == {"a": 1}
    with tags("t"):
        assert outer() == 22
    with contextlib.suppress(ValueError):
        failing()
    asyncio.run(after())
    time.sleep(8)  # the services of the server: schedules, late runs, events


def main() -> None:
    subprocess.run(["prefect", "server", "database", "upgrade", "--yes"], check=True)
    port = free_port()
    address = f"http://127.0.0.1:{port}/api"
    with serve(["prefect", "server", "start", "--port", str(port)], f"{address}/health"):
        os.environ["PREFECT_API_URL"] = address
        use()
    check_log()
    subprocess.run(["prefect", "server", "database", "downgrade", "--yes", "--revision", "-1"], check=True)
    subprocess.run(["prefect", "server", "database", "upgrade", "--yes"], check=True)


if __name__ == "__main__":
    main()
