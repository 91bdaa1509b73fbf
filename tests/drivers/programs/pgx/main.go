// pgx: prints what it sees, a line each; the test compares the lines of two servers.
// Arguments: host, port, schema.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

var ctx = context.Background()

func show(title string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		text = []byte(fmt.Sprint(value))
	}
	fmt.Printf("%s: %s\n", title, text)
}

func must(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func failing(title string, err error) {
	var shown *pgconn.PgError
	if !errors.As(err, &shown) {
		fmt.Printf("%s: %v\n", title, err)
		return
	}
	show(title, []any{shown.Severity, shown.Code, shown.Message, shown.Detail, shown.Position, shown.TableName, shown.ColumnName, shown.ConstraintName})
}

func rows(conn *pgx.Conn, sql string, arguments ...any) []any {
	found, err := conn.Query(ctx, sql, arguments...)
	must(err)
	all, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (any, error) { return row.Values() })
	must(err)
	result := []any{}
	for _, row := range all {
		result = append(result, row)
	}
	return result
}

func number(text string) pgtype.Numeric {
	var value pgtype.Numeric
	must(value.Scan(text))
	return value
}

func types(conn *pgx.Conn) {
	cases := []struct {
		kind   string
		values []any
	}{
		{"bool", []any{true, false}},
		{"int2", []any{int16(-32768), int16(32767)}},
		{"int4", []any{int32(-2147483648), int32(2147483647)}},
		{"int8", []any{int64(-9223372036854775808), int64(9223372036854775807)}},
		{"float4", []any{float32(1.5), float32(-0.25)}},
		{"float8", []any{0.1, 1.7976931348623157e308}},
		{"numeric", []any{number("1.10"), number("-99999999999999999999.5"), number("NaN")}},
		{"numeric(12,4)", []any{number("1.1"), number("-99999999.9999")}},
		{"text", []any{"", "äöü 漢字 😀", "it's \\ \"quoted\"\t\n"}},
		{"varchar(20)", []any{"ünïcode"}},
		{"char(5)", []any{"ab"}},
		{"bytea", []any{[]byte{0, 1, 255}, []byte{}}},
		{"date", []any{time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC)}},
		{"time", []any{pgtype.Time{Microseconds: 45015000001, Valid: true}}},
		{"timestamp", []any{time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)}},
		{"timestamptz", []any{time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)}},
		{"interval", []any{pgtype.Interval{Months: 14, Days: 3, Microseconds: 14706000000, Valid: true}}},
		{"uuid", []any{"f47ac10b-58cc-4372-a567-0e02b2c3d479"}},
		{"json", []any{map[string]any{"a": []any{1, nil, "x"}}}},
		{"jsonb", []any{map[string]any{"b": map[string]any{"c": 2.5}}}},
		{"inet", []any{netip.MustParsePrefix("192.168.1.0/24")}},
		{"int4[]", []any{[]int32{1, 2, 3}, []int32{}}},
		{"text[]", []any{[]string{"a", "with \"quotes\" and, commas", ""}}},
	}
	for _, one := range cases {
		_, err := conn.Exec(ctx, "DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v "+one.kind+")")
		must(err)
		for id, value := range append(one.values, nil) {
			tag, err := conn.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", id, value)
			must(err)
			if tag.RowsAffected() != 1 {
				log.Fatal("one row")
			}
		}
		show(one.kind, rows(conn, "SELECT v FROM t ORDER BY id"))
		must(conn.DeallocateAll(ctx))
	}
}

func statements(conn *pgx.Conn) {
	_, err := conn.Exec(ctx, "CREATE TABLE people (id serial PRIMARY KEY, name text UNIQUE NOT NULL, age int CHECK (age >= 0))")
	must(err)
	show("returning", rows(conn, "INSERT INTO people (name, age) VALUES ($1, $2), ($3, $4) RETURNING *", "Ann", 30, "Bo", nil))
	prepared, err := conn.Prepare(ctx, "by_age", "SELECT name, age FROM people WHERE age > $1 ORDER BY name")
	must(err)
	show("described", []any{prepared.ParamOIDs, len(prepared.Fields), prepared.Fields[0].DataTypeOID})
	for _, age := range []int{10, 40} {
		show("prepared", rows(conn, "by_age", age))
	}
	show("any", rows(conn, "SELECT name FROM people WHERE id = ANY($1) ORDER BY 1", []int32{1, 2}))
	show("simple protocol", rows(conn, "SELECT name, $1::int + 1 FROM people ORDER BY 1", pgx.QueryExecModeSimpleProtocol, 41))
	batch := &pgx.Batch{}
	for id := 10; id < 15; id++ {
		batch.Queue("INSERT INTO people (id, name, age) VALUES ($1, $2, $1)", id, fmt.Sprint("p", id))
	}
	batch.Queue("SELECT count(*), sum(age) FROM people")
	results := conn.SendBatch(ctx, batch)
	for range 5 {
		tag, err := results.Exec()
		must(err)
		if tag.String() != "INSERT 0 1" {
			log.Fatal(tag)
		}
	}
	var count, sum int
	must(results.QueryRow().Scan(&count, &sum))
	must(results.Close())
	show("batch", []int{count, sum})
	failing("batch error", func() error {
		broken := &pgx.Batch{}
		broken.Queue("INSERT INTO people (id, name) VALUES (20, 'twenty')")
		broken.Queue("INSERT INTO people (id, name) VALUES (10, 'ten')")
		return conn.SendBatch(ctx, broken).Close()
	}())
	show("nothing of it", rows(conn, "SELECT count(*) FROM people WHERE id = 20"))
	_, err = conn.Exec(ctx, "ALTER TABLE people ADD COLUMN email text DEFAULT 'none'")
	must(err)
	show("altered", rows(conn, "SELECT * FROM people ORDER BY id LIMIT 2"))
}

func transactions(conn *pgx.Conn) {
	outer, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must(err)
	_, err = outer.Exec(ctx, "DELETE FROM people WHERE id >= 10")
	must(err)
	inner, err := outer.Begin(ctx)
	must(err)
	_, err = inner.Exec(ctx, "INSERT INTO people (id, name) VALUES (1, 'Cy')")
	failing("unique", err)
	_, err = inner.Exec(ctx, "SELECT 1")
	failing("aborted", err)
	must(inner.Rollback(ctx))
	var count int
	must(outer.QueryRow(ctx, "SELECT count(*) FROM people").Scan(&count))
	show("inside", count)
	must(outer.Rollback(ctx))
	show("after", rows(conn, "SELECT count(*) FROM people"))
}

func failures(conn *pgx.Conn) {
	for _, one := range []struct {
		title, sql string
		arguments  []any
	}{
		{"syntax", "SELECT 1 FORM people", nil},
		{"column", "SELECT missing FROM people", nil},
		{"not null", "INSERT INTO people (id, name) VALUES (50, $1)", []any{nil}},
		{"check", "INSERT INTO people (id, name, age) VALUES (50, 'Di', -1)", nil},
		{"number", "SELECT $1::text::int", []any{"x"}},
		{"zero", "SELECT 1 / $1::int", []any{0}},
	} {
		_, err := conn.Exec(ctx, one.sql, one.arguments...)
		failing(one.title, err)
	}
	limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := conn.Exec(limited, "SELECT 1")
	must(err)
}

func copies(conn *pgx.Conn) {
	_, err := conn.Exec(ctx, "CREATE TABLE numbers (a int PRIMARY KEY, b text)")
	must(err)
	text := &bytes.Buffer{}
	for id := range 3000 {
		fmt.Fprintf(text, "%d\tnumber %d\n", id, id)
	}
	tag, err := conn.PgConn().CopyFrom(ctx, text, "COPY numbers FROM STDIN")
	must(err)
	show("copied", tag.String())
	out := &bytes.Buffer{}
	_, err = conn.PgConn().CopyTo(ctx, out, "COPY (SELECT * FROM numbers WHERE a % 1000 = 7 ORDER BY a) TO STDOUT WITH CSV")
	must(err)
	show("copy", out.String())
	_, err = conn.PgConn().CopyFrom(ctx, bytes.NewBufferString("x\ty\n"), "COPY numbers FROM STDIN")
	failing("bad copy", err)
	show("usable", rows(conn, "SELECT count(*) FROM numbers"))
}

func main() {
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres", os.Args[1], os.Args[2]))
	must(err)
	config.RuntimeParams["search_path"] = os.Args[3]
	config.RuntimeParams["timezone"] = "UTC"
	time.Local = time.UTC
	conn, err := pgx.ConnectConfig(ctx, config)
	must(err)
	defer conn.Close(ctx)
	types(conn)
	statements(conn)
	transactions(conn)
	failures(conn)
	copies(conn)
}
