// pgjdbc: prints what it sees, a line each; the test compares the lines of two servers.
// Arguments: host, port, schema.
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

public final class Client {
    private static Connection connection;

    private static void show(String title, Object value) {
        System.out.println(title + ": " + value);
    }

    private interface Action {
        void run() throws Exception;
    }

    private static void failing(String title, Action action) throws Exception {
        try {
            action.run();
            show(title, "no error");
        } catch (SQLException error) {
            SQLException shown = error instanceof BatchUpdateException ? error.getNextException() : error;
            StringBuilder more = new StringBuilder();
            if (shown instanceof PSQLException psql && psql.getServerErrorMessage() != null) {
                ServerErrorMessage server = psql.getServerErrorMessage();
                more.append(" detail=").append(server.getDetail()).append(" position=").append(server.getPosition())
                    .append(" table=").append(server.getTable()).append(" constraint=").append(server.getConstraint());
            }
            show(title, shown.getSQLState() + more);
        }
    }

    private static String rows(ResultSet found) throws SQLException {
        List<String> rows = new ArrayList<>();
        int columns = found.getMetaData().getColumnCount();
        while (found.next()) {
            List<String> row = new ArrayList<>();
            for (int number = 1; number <= columns; number++) {
                Object value = found.getObject(number);
                if (value instanceof byte[] bytes) {
                    value = Arrays.toString(bytes);
                } else if (value instanceof Array array) {
                    value = Arrays.deepToString((Object[]) array.getArray());
                }
                row.add(value == null ? "NULL" : value.getClass().getSimpleName() + " " + value);
            }
            rows.add(row.toString());
        }
        return rows.toString();
    }

    private static String query(String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int number = 0; number < parameters.length; number++) {
                statement.setObject(number + 1, parameters[number]);
            }
            try (ResultSet found = statement.executeQuery()) {
                return rows(found);
            }
        }
    }

    private static int update(String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int number = 0; number < parameters.length; number++) {
                statement.setObject(number + 1, parameters[number]);
            }
            return statement.executeUpdate();
        }
    }

    private static void types() throws Exception {
        Object[][] cases = {
            {"bool", true, false},
            {"int2", (short) -32768, (short) 32767},
            {"int4", Integer.MIN_VALUE, Integer.MAX_VALUE},
            {"int8", Long.MIN_VALUE, Long.MAX_VALUE},
            {"float4", 1.5f, Float.NEGATIVE_INFINITY},
            {"float8", 0.1, Double.MAX_VALUE, Double.NaN},
            {"numeric", new BigDecimal("1.10"), new BigDecimal("-99999999999999999999.5")},
            {"numeric(12,4)", new BigDecimal("1.1"), new BigDecimal("-99999999.9999")},
            {"text", "", "äöü 漢字 😀", "it's \\ \"quoted\"\t\n"},
            {"varchar(20)", "ünïcode"},
            {"char(5)", "ab"},
            {"bytea", new byte[] {0, 1, -1}, new byte[0]},
            {"date", LocalDate.of(2000, 2, 29), LocalDate.of(1969, 12, 31)},
            {"time", LocalTime.of(12, 30, 15, 1000)},
            {"timestamp", LocalDateTime.of(2024, 2, 29, 12, 0, 0, 123456000)},
            {"timestamptz", OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 123456000, ZoneOffset.UTC)},
            {"uuid", UUID.fromString("f47ac10b-58cc-4372-a567-0e02b2c3d479")},
        };
        for (Object[] one : cases) {
            update("DROP TABLE IF EXISTS t");
            update("CREATE TABLE t (id int PRIMARY KEY, v " + one[0] + ")");
            for (int number = 1; number < one.length; number++) {
                update("INSERT INTO t VALUES (?, ?)", number, one[number]);
            }
            update("INSERT INTO t VALUES (0, NULL)");
            for (int times = 0; times < 7; times++) { // from the fifth on, results are binary
                String found = query("SELECT v FROM t ORDER BY id");
                if (times % 6 == 0) {
                    show((String) one[0], found);
                }
            }
        }
        update("DROP TABLE t");
        update("CREATE TABLE t (a int[], b text[], c jsonb)");
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO t VALUES (?, ?, ?::jsonb)")) {
            statement.setArray(1, connection.createArrayOf("int4", new Object[] {1, null, 3}));
            statement.setArray(2, connection.createArrayOf("text", new Object[] {"a", "with, \"quotes\"", ""}));
            statement.setString(3, "{\"a\": [1, 2.5, null]}");
            statement.executeUpdate();
        }
        show("arrays and json", query("SELECT * FROM t"));
        show("element", query("SELECT a[1], b[2], c -> 'a' ->> 1 FROM t WHERE 3 = ANY (a)"));
    }

    private static void statements() throws Exception {
        update("CREATE TABLE people (id serial PRIMARY KEY, name text UNIQUE NOT NULL, age int CHECK (age >= 0))");
        try (PreparedStatement statement =
                connection.prepareStatement("INSERT INTO people (name, age) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            for (int number = 0; number < 100; number++) {
                statement.setString(1, "p" + number);
                statement.setInt(2, number);
                statement.addBatch();
            }
            show("batch", Arrays.stream(statement.executeBatch()).sum());
            try (ResultSet keys = statement.getGeneratedKeys()) {
                keys.next();
                show("first key", keys.getInt(1));
            }
        }
        for (int times = 0; times < 7; times++) {
            show("prepared " + times, query("SELECT name, age FROM people WHERE age > ? ORDER BY age LIMIT 1", times * 10));
        }
        update("ALTER TABLE people ADD COLUMN email text DEFAULT 'none'");
        show("altered", query("SELECT * FROM people WHERE id = ?", 1));
        failing("batch error", () -> {
            try (PreparedStatement statement = connection.prepareStatement("INSERT INTO people (name) VALUES (?)")) {
                for (String name : new String[] {"new", "p1"}) {
                    statement.setString(1, name);
                    statement.addBatch();
                }
                statement.executeBatch();
            }
        });
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("SELECT g FROM generate_series(1, 1000) g")) {
            statement.setFetchSize(64);
            long sum = 0;
            try (ResultSet found = statement.executeQuery()) {
                while (found.next()) {
                    sum += found.getInt(1);
                }
            }
            show("fetched in portions", sum);
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
                ResultSet found = statement.executeQuery("SELECT id, name, age FROM people WHERE id < 4 ORDER BY id")) {
            found.absolute(2);
            found.updateInt("age", 77);
            found.updateRow();
        }
        show("updated", query("SELECT id, age FROM people WHERE id < 4 ORDER BY id"));
    }

    private static void transactions() throws Exception {
        connection.setAutoCommit(false);
        connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        update("DELETE FROM people WHERE id > 3");
        Savepoint savepoint = connection.setSavepoint();
        failing("unique", () -> update("INSERT INTO people (name) VALUES ('p1')"));
        failing("aborted", () -> query("SELECT 1"));
        connection.rollback(savepoint);
        show("inside", query("SELECT count(*) FROM people"));
        connection.rollback();
        show("after", query("SELECT count(*) FROM people"));
        connection.commit();
        connection.setAutoCommit(true);
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
    }

    private static void errors() throws Exception {
        failing("syntax", () -> query("SELECT 1 FORM people"));
        failing("column", () -> query("SELECT missing FROM people"));
        failing("not null", () -> update("INSERT INTO people (name) VALUES (NULL)"));
        failing("check", () -> update("INSERT INTO people (name, age) VALUES ('x', ?)", -1));
        failing("zero", () -> query("SELECT 1 / ?", 0));
        failing("number", () -> query("SELECT ?::text::int", "x"));
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            failing("timeout", () -> statement.executeQuery("SELECT pg_sleep(30)"));
        }
        show("usable", query("SELECT 1"));
    }

    private static void copies() throws Exception {
        update("CREATE TABLE numbers (a int PRIMARY KEY, b text)");
        CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder text = new StringBuilder();
        for (int number = 0; number < 3000; number++) {
            text.append(number).append(",\"number ").append(number).append("\"\n");
        }
        show("copied", copies.copyIn("COPY numbers FROM STDIN WITH CSV", new StringReader(text.toString())));
        StringWriter out = new StringWriter();
        copies.copyOut("COPY (SELECT * FROM numbers WHERE a % 1000 = 7 ORDER BY a) TO STDOUT", out);
        show("copy", out.toString().replace("\n", "|"));
        failing("bad copy", () -> copies.copyIn("COPY numbers FROM STDIN", new StringReader("x\ty\n")));
    }

    private static String listed(ResultSet found, String... columns) throws SQLException {
        List<String> rows = new ArrayList<>();
        while (found.next()) {
            StringBuilder row = new StringBuilder();
            for (String column : columns) {
                row.append(found.getString(column)).append(' ');
            }
            rows.add(row.toString().trim());
        }
        return String.join("; ", rows);
    }

    private static void metadata(String schema) throws Exception {
        update("CREATE TABLE orders (id bigint PRIMARY KEY, person int NOT NULL REFERENCES people ON DELETE CASCADE, at date)");
        update("CREATE INDEX orders_by_person ON orders (person, at DESC)");
        update("CREATE VIEW recent AS SELECT * FROM orders WHERE at > '2020-01-01'");
        update("COMMENT ON TABLE orders IS 'what was bought'");
        DatabaseMetaData data = connection.getMetaData();
        show("tables", listed(data.getTables(null, schema, "%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE", "REMARKS"));
        show("columns", listed(data.getColumns(null, schema, "orders", "%"),
            "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "NULLABLE", "COLUMN_DEF", "ORDINAL_POSITION", "IS_AUTOINCREMENT"));
        show("serial", listed(data.getColumns(null, schema, "people", "id"), "COLUMN_NAME", "TYPE_NAME", "IS_AUTOINCREMENT"));
        show("keys", listed(data.getPrimaryKeys(null, schema, "orders"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        show("imported", listed(data.getImportedKeys(null, schema, "orders"), "PKTABLE_NAME", "PKCOLUMN_NAME", "FKCOLUMN_NAME", "DELETE_RULE", "FK_NAME"));
        show("exported", listed(data.getExportedKeys(null, schema, "people"), "FKTABLE_NAME", "FKCOLUMN_NAME"));
        show("indexes", listed(data.getIndexInfo(null, schema, "orders", false, false), "INDEX_NAME", "COLUMN_NAME", "NON_UNIQUE", "ASC_OR_DESC"));
        show("best row", listed(data.getBestRowIdentifier(null, schema, "orders", 0, true), "COLUMN_NAME"));
        show("schemas", listed(data.getSchemas(null, schema), "TABLE_SCHEM"));
        show("privileges", listed(data.getTablePrivileges(null, schema, "orders"), "GRANTEE", "PRIVILEGE"));
        show("sequences", listed(data.getTables(null, schema, "%", new String[] {"SEQUENCE"}), "TABLE_NAME"));
        show("product", data.getDatabaseProductName() + " " + data.getDatabaseMajorVersion());
        try (PreparedStatement statement = connection.prepareStatement("SELECT o.id, p.name AS who, count(*) OVER () FROM orders o JOIN people p ON p.id = o.person WHERE o.at = ?")) {
            show("parameter", statement.getParameterMetaData().getParameterTypeName(1));
            ResultSetMetaData columns = statement.getMetaData();
            for (int number = 1; number <= columns.getColumnCount(); number++) {
                show("column " + number, columns.getColumnLabel(number) + " " + columns.getColumnTypeName(number) + " "
                    + columns.getTableName(number) + " " + columns.isNullable(number) + " " + columns.isAutoIncrement(number));
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", "postgres");
        properties.setProperty("options", "-c search_path=" + arguments[2]);
        java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("UTC"));
        connection = DriverManager.getConnection("jdbc:postgresql://" + arguments[0] + ":" + arguments[1] + "/postgres", properties);
        types();
        statements();
        transactions();
        errors();
        copies();
        metadata(arguments[2]);
        connection.close();
    }
}
