// tokio-postgres: prints what it sees, a line each; the test compares the lines of two servers.
// Arguments: host, port, schema.
use bytes::Bytes;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures_util::{pin_mut, SinkExt, StreamExt, TryStreamExt};
use std::fmt::Debug;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

fn show(title: &str, value: impl Debug) {
    println!("{title}: {value:?}");
}

fn failing<T>(title: &str, result: Result<T, Error>) {
    match result {
        Ok(_) => show(title, "no error"),
        Err(error) => match error.as_db_error() {
            Some(db) => show(
                title,
                (db.severity(), db.code().code(), db.message(), db.detail(), db.position(), db.table(), db.column(), db.constraint()),
            ),
            None => show(title, error.to_string()),
        },
    }
}

async fn round<T>(client: &Client, kind: &str, values: &[T]) -> Result<(), Error>
where
    T: ToSql + Sync + Debug,
    for<'a> T: FromSql<'a>,
{
    client.batch_execute(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v {kind})")).await?;
    for (id, value) in values.iter().enumerate() {
        let id = id as i32;
        let done = client.execute("INSERT INTO t VALUES ($1, $2)", &[&id, value]).await?;
        assert_eq!(done, 1);
    }
    client.execute("INSERT INTO t VALUES ($1, $2)", &[&1000i32, &None::<T>]).await?;
    let rows = client.query("SELECT v FROM t ORDER BY id", &[]).await?;
    let found: Vec<Option<T>> = rows.iter().map(|row| row.get(0)).collect();
    show(kind, (rows[0].columns()[0].type_().name(), found));
    Ok(())
}

async fn types(client: &Client) -> Result<(), Error> {
    round(client, "bool", &[true, false]).await?;
    round(client, "int2", &[i16::MIN, i16::MAX]).await?;
    round(client, "int4", &[i32::MIN, i32::MAX]).await?;
    round(client, "int8", &[i64::MIN, i64::MAX]).await?;
    round(client, "float4", &[1.5f32, f32::NEG_INFINITY]).await?;
    round(client, "float8", &[0.1f64, f64::MAX, f64::NAN]).await?;
    round(client, "text", &["".to_string(), "äöü 漢字 😀".to_string(), "it's \\ \"quoted\"\t\n".to_string()]).await?;
    round(client, "varchar(20)", &["ünïcode".to_string()]).await?;
    round(client, "char(5)", &["ab".to_string()]).await?;
    round(client, "name", &["a_name".to_string()]).await?;
    round(client, "bytea", &[vec![0u8, 1, 255], vec![]]).await?;
    round(client, "date", &[NaiveDate::from_ymd_opt(2000, 2, 29).unwrap()]).await?;
    round(client, "time", &[NaiveTime::from_hms_micro_opt(12, 30, 15, 1).unwrap()]).await?;
    let moment: NaiveDateTime = "2024-02-29T12:00:00.123456".parse().unwrap();
    round(client, "timestamp", &[moment]).await?;
    round::<DateTime<Utc>>(client, "timestamptz", &[moment.and_utc()]).await?;
    round(client, "uuid", &[uuid::Uuid::parse_str("f47ac10b-58cc-4372-a567-0e02b2c3d479").unwrap()]).await?;
    round(client, "json", &[serde_json::json!({"a": [1, null, "x"]})]).await?;
    round(client, "jsonb", &[serde_json::json!({"b": {"c": 2.5}})]).await?;
    round(client, "int4[]", &[vec![1i32, 2, 3], vec![]]).await?;
    round(client, "text[]", &[vec![Some("a".to_string()), None, Some("with \"quotes\" and, commas".to_string())]]).await?;
    round(client, "oid", &[u32::MAX]).await
}

async fn statements(client: &Client) -> Result<(), Error> {
    client.batch_execute("CREATE TABLE people (id serial PRIMARY KEY, name text UNIQUE NOT NULL, age int CHECK (age >= 0))").await?;
    let insert = client.prepare("INSERT INTO people (name, age) VALUES ($1, $2) RETURNING id").await?;
    show("parameters", insert.params());
    for (name, age) in [("Ann", Some(30)), ("Bo", None::<i32>)] {
        show("returning", client.query_one(&insert, &[&name, &age]).await?.get::<_, i32>(0));
    }
    let typed = client.prepare_typed("SELECT $1 || name AS who, age FROM people ORDER BY id", &[Type::TEXT]).await?;
    show("columns", typed.columns().iter().map(|column| (column.name(), column.type_().name())).collect::<Vec<_>>());
    let names: Vec<(String, Option<i32>)> =
        client.query(&typed, &[&"Dr. "]).await?.iter().map(|row| (row.get(0), row.get("age"))).collect();
    show("typed", names);
    let (one, two, three) = futures_util::future::join3(
        client.query_one("SELECT count(*) FROM people", &[]),
        client.query_one("SELECT max(id) FROM people", &[]),
        client.query("SELECT missing FROM people", &[]),
    )
    .await;
    show("pipelined", (one?.get::<_, i64>(0), two?.get::<_, i32>(0)));
    failing("pipelined error", three);
    for message in client.simple_query("SELECT 1 AS a; UPDATE people SET age = 1 WHERE name = 'Bo'; SELECT 'x' AS b").await? {
        match message {
            SimpleQueryMessage::Row(row) => show("row", (row.columns()[0].name(), row.get(0))),
            SimpleQueryMessage::CommandComplete(count) => show("complete", count),
            _ => {}
        }
    }
    client.batch_execute("ALTER TABLE people ADD COLUMN email text DEFAULT 'none'").await?;
    show("altered", client.query_one("SELECT * FROM people WHERE id = 1", &[]).await?.get::<_, String>("email"));
    Ok(())
}

async fn transactions(client: &mut Client) -> Result<(), Error> {
    let mut outer = client.transaction().await?;
    outer.execute("DELETE FROM people", &[]).await?;
    let inner = outer.savepoint("one").await?;
    failing("unique", inner.batch_execute("INSERT INTO people (id, name) VALUES (7, 'Cy'), (8, 'Cy')").await);
    failing("aborted", inner.query("SELECT 1", &[]).await);
    inner.rollback().await?;
    show("inside", outer.query_one("SELECT count(*) FROM people", &[]).await?.get::<_, i64>(0));
    let portal = outer.bind("SELECT g FROM generate_series(1, 10) g", &[]).await?;
    for size in [4, 4, 4] {
        let found: Vec<i32> = outer.query_portal(&portal, size).await?.iter().map(|row| row.get(0)).collect();
        show("portal", found);
    }
    outer.rollback().await?;
    show("after", client.query_one("SELECT count(*) FROM people", &[]).await?.get::<_, i64>(0));
    Ok(())
}

async fn failures(client: &Client) -> Result<(), Error> {
    failing("syntax", client.query("SELECT 1 FORM people", &[]).await);
    failing("not null", client.execute("INSERT INTO people (id, name) VALUES (50, $1)", &[&None::<String>]).await);
    failing("check", client.execute("INSERT INTO people (id, name, age) VALUES (50, 'Di', $1)", &[&-1i32]).await);
    failing("number", client.query("SELECT $1::text::int", &[&"x"]).await);
    failing("zero", client.query("SELECT 1 / $1::int", &[&0i32]).await);
    let token = client.cancel_token();
    let (found, _) = futures_util::future::join(client.batch_execute("SELECT pg_sleep(30)"), async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        token.cancel_query(NoTls).await
    })
    .await;
    failing("canceled", found);
    Ok(())
}

async fn copies(client: &Client) -> Result<(), Error> {
    client.batch_execute("CREATE TABLE numbers (a int PRIMARY KEY, b text)").await?;
    let sink = client.copy_in("COPY numbers FROM STDIN").await?;
    pin_mut!(sink);
    for id in 0..3000 {
        sink.feed(Bytes::from(format!("{id}\tnumber {id}\n"))).await?;
    }
    show("copied", sink.finish().await?);
    let out = client.copy_out("COPY (SELECT * FROM numbers WHERE a % 1000 = 7 ORDER BY a) TO STDOUT").await?;
    let parts: Vec<Bytes> = out.try_collect().await?;
    show("copy", String::from_utf8(parts.concat()).unwrap());
    let rows = client.query_raw("SELECT a FROM numbers ORDER BY a", Vec::<i32>::new()).await?;
    pin_mut!(rows);
    let mut sum = 0i64;
    while let Some(row) = rows.next().await {
        sum += i64::from(row?.get::<_, i32>(0));
    }
    show("streamed", sum);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let options = format!("-c search_path={} -c TimeZone=UTC", arguments[3]);
    let (mut client, connection) = tokio_postgres::Config::new()
        .host(&arguments[1])
        .port(arguments[2].parse().unwrap())
        .user("postgres")
        .dbname("postgres")
        .options(&options)
        .connect(NoTls)
        .await?;
    tokio::spawn(connection);
    types(&client).await?;
    statements(&client).await?;
    transactions(&mut client).await?;
    failures(&client).await?;
    copies(&client).await
}
