"""MLflow: `mlflow db upgrade`, the tracking server on the database, and all that a client keeps in it."""

import os
import subprocess
import tempfile
import time

import mlflow
from background import check_log, free_port, serve
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException

STORE = os.environ["DATABASE_URL"].replace("postgresql:", "postgresql+psycopg2:")


def upgrade() -> None:
    for _ in range(2):
        subprocess.run(["mlflow", "db", "upgrade", STORE], check=True)


def track(client: MlflowClient) -> str:
    experiment = client.create_experiment("first", tags={"team": "a"})
    try:
        client.create_experiment("first")
    except MlflowException as error:
        assert error.error_code == "RESOURCE_ALREADY_EXISTS", error
    else:
        raise AssertionError("an experiment's name was used twice")
    runs = []
    for number in range(5):
        run = client.create_run(experiment, run_name=f"run {number}", tags={"kind": "odd" if number % 2 else "even"})
        metrics = [Metric("loss", 1 / (step + 1 + number), int(time.time() * 1000), step) for step in range(50)]
        client.log_batch(run.info.run_id, metrics, [Param("rate", str(number / 10))], [RunTag("t", "x")])
        client.log_metric(run.info.run_id, "bad", float("nan"), step=1)
        client.log_metric(run.info.run_id, "large", float("inf"), step=1)
        client.log_text(run.info.run_id, "text", "note.txt")
        client.set_terminated(run.info.run_id)
        runs.append(run.info.run_id)
    try:
        client.log_param(runs[0], "rate", "9")
    except MlflowException:
        pass
    else:
        raise AssertionError("a parameter changed")
    found = client.search_runs(
        [experiment], "metrics.loss < 0.01 and tags.kind = 'even'", order_by=["metrics.loss DESC"]
    )
    assert [run.info.run_name for run in found] == [], found
    found = client.search_runs(
        [experiment], "params.rate LIKE '0.%' and tags.kind = 'odd'", order_by=["params.rate DESC"]
    )
    assert [run.info.run_name for run in found] == ["run 3", "run 1"], found
    assert len(client.get_metric_history(runs[0], "loss")) == 50
    page = client.search_runs([experiment], max_results=2)
    assert len(page) == 2 and page.token
    client.set_tag(runs[0], "kind", "new")
    client.delete_tag(runs[0], "t")
    client.delete_run(runs[4])
    assert len(client.search_runs([experiment], run_view_type=ViewType.DELETED_ONLY)) == 1
    client.restore_run(runs[4])
    client.rename_experiment(experiment, "renamed")
    assert client.search_experiments(filter_string="name LIKE 'ren%' AND tags.team = 'a'")
    client.delete_experiment(experiment)
    client.restore_experiment(experiment)
    return runs[0]


def register(client: MlflowClient, run: str) -> None:
    client.create_registered_model("model", tags={"a": "b"}, description="text")
    for _ in range(3):
        version = client.create_model_version("model", source=f"runs:/{run}/note.txt", run_id=run)
    client.set_registered_model_alias("model", "best", version.version)
    assert client.get_model_version_by_alias("model", "best").version == version.version
    client.set_model_version_tag("model", version.version, "k", "v")
    client.update_model_version("model", version.version, description="d")
    assert len(client.search_model_versions("name = 'model'")) == 3
    assert len(client.search_registered_models("name LIKE 'mod%'", order_by=["name DESC"])) == 1
    client.delete_registered_model_alias("model", "best")
    client.delete_model_version("model", "1")
    client.rename_registered_model("model", "other")
    client.delete_registered_model("other")


def trace_and_evaluate(client: MlflowClient) -> None:
    mlflow.set_experiment("traced")

    @mlflow.trace(attributes={"a": 1})
    def outer(number: int) -> int:
        with mlflow.start_span("inner") as span:
            span.set_inputs({"n": number})
            return number + 1

    for number in range(3):
        outer(number)
    mlflow.flush_trace_async_logging()
    experiment = client.get_experiment_by_name("traced").experiment_id
    traces = client.search_traces(locations=[experiment], order_by=["timestamp_ms DESC"])
    assert len(traces) == 3, traces
    client.set_trace_tag(traces[0].info.trace_id, "k", "v")
    assert len(client.search_traces(locations=[experiment], filter_string="tags.k = 'v'")) == 1
    client.delete_traces(experiment, trace_ids=[traces[1].info.trace_id])


def main() -> None:
    upgrade()
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = ["mlflow", "server", "--backend-store-uri", STORE, "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", tempfile.mkdtemp(dir=".")]
    with serve(command, f"{address}/health"):
        mlflow.set_tracking_uri(address)
        client = MlflowClient(address)
        run = track(client)
        register(client, run)
        trace_and_evaluate(client)
        client.delete_run(run)
        subprocess.run(["mlflow", "gc", "--backend-store-uri", STORE, "--tracking-uri", address], check=True)
    check_log()


if __name__ == "__main__":
    main()
