"""MLflow: experiments, models and traces."""

from tests.applications.base import PythonApplication

APPLICATION = PythonApplication("mlflow", "3.17.2", ("psycopg2-binary",), environment={"MLFLOW_DISABLE_TELEMETRY": "1"})
