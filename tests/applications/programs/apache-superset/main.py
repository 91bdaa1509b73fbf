"""Superset with its metadata in the database: migrations, roles, and objects made through its REST interface."""

import json
import os
import subprocess

os.environ["SUPERSET_CONFIG_PATH"] = os.path.abspath("superset_config.py")
os.environ["FLASK_APP"] = "superset"
ADMIN = [
    "--username",
    "admin",
    "--firstname",
    "a",
    "--lastname",
    "b",
    "--email",
    "a@example.org",
    "--password",
    "secret",
]


def command(*words: str) -> None:
    subprocess.run(["superset", *words], check=True)


class Api:
    """Requests as the user admin."""

    def __init__(self, client):
        self.client = client
        body = {"username": "admin", "password": "secret", "provider": "db", "refresh": True}
        answer = client.post("/api/v1/security/login", json=body)
        assert answer.status_code == 200, answer.text
        self.headers = {"Authorization": f"Bearer {answer.json['access_token']}"}

    def __call__(self, method: str, path: str, body=None, status: int = 200):
        answer = self.client.open(f"/api/v1/{path}", method=method, json=body, headers=self.headers)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text[:2000])
        return answer.json


def use(api: Api, uri: str) -> None:
    database = api("POST", "database/", {"database_name": "own", "sqlalchemy_uri": uri, "expose_in_sqllab": True}, 201)[
        "id"
    ]
    api("POST", "database/", {"database_name": "own", "sqlalchemy_uri": uri}, 422)
    assert "public" in api("GET", f"database/{database}/schemas/")["result"]
    body = {"database": database, "schema": "public", "table_name": "ab_user"}
    dataset = api("POST", "dataset/", body, 201)["id"]
    columns = api("GET", f"dataset/{dataset}")["result"]["columns"]
    assert any(column["column_name"] == "username" for column in columns)
    metrics = [
        {"metric_name": "n", "expression": "count(*)", "currency": {"symbol": "EUR", "symbolPosition": "prefix"}}
    ]
    api("PUT", f"dataset/{dataset}", {"metrics": metrics, "description": "users"})
    chart = api(
        "POST",
        "chart/",
        {
            "slice_name": "c",
            "viz_type": "table",
            "datasource_id": dataset,
            "datasource_type": "table",
            "params": json.dumps({"metrics": ["n"]}),
        },
        201,
    )["id"]
    query = {
        "datasource": {"id": dataset, "type": "table"},
        "result_format": "json",
        "result_type": "full",
        "force": True,
        "queries": [{"metrics": ["n"], "columns": ["username"], "row_limit": 10, "orderby": [["n", False]]}],
    }
    assert api("POST", "chart/data", query)["result"][0]["data"][0]["n"] == 1
    dashboard = api("POST", "dashboard/", {"dashboard_title": "d", "slug": "d", "published": True}, 201)["id"]
    api("PUT", f"chart/{chart}", {"dashboards": [dashboard], "owners": [1]})
    assert api("GET", "dashboard/d/charts")["result"][0]["slice_name"] == "c"
    for page in ("chart", "dashboard", "dataset", "database", "log", "query", "saved_query", "tag"):
        api("GET", f"{page}/")
    api("POST", f"dashboard/{dashboard}/favorites/")
    assert api("GET", f"dashboard/favorite_status/?q=!({dashboard})")["result"][0]["value"]
    sql = {
        "database_id": database,
        "sql": "SELECT username FROM ab_user ORDER BY 1",
        "schema": "public",
        "runAsync": False,
    }
    assert api("POST", "sqllab/execute/", sql)["data"] == [{"username": "admin"}]
    saved = api("POST", "saved_query/", {"db_id": database, "label": "s", "sql": "SELECT 1", "schema": "public"}, 201)[
        "id"
    ]
    api("POST", "css_template/", {"template_name": "t", "css": ".a {}"}, 201)
    api("POST", "annotation_layer/", {"name": "layer"}, 201)
    tables = api("GET", "dataset/related/database?q=(filter:own)")
    assert tables["count"] >= 1
    api("DELETE", f"saved_query/{saved}")
    api("DELETE", f"chart/{chart}")
    api("DELETE", f"dashboard/{dashboard}")
    api("DELETE", f"dataset/{dataset}")


def main() -> None:
    command("db", "upgrade")
    command("init")
    command("fab", "create-admin", *ADMIN)
    command("init")
    from superset.app import create_app

    app = create_app()
    use(Api(app.test_client()), app.config["SQLALCHEMY_DATABASE_URI"])
    command("db", "downgrade")
    command("db", "upgrade")


if __name__ == "__main__":
    main()
