// Liquibase's commands: update, tag, rollback, status, diff, a changelog made of a database, snapshot, drop-all.

import java.io.*;
import java.nio.file.*;
import java.sql.*;
import java.util.*;
import liquibase.integration.commandline.LiquibaseCommandLine;

public class Main {
    static final String HOST = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/";
    static final String URL = HOST + System.getenv("PGDATABASE");

    static final Set<String> WITHOUT_CHANGELOG = Set.of("diff", "diff-changelog", "generate-changelog", "snapshot", "drop-all", "tag", "history");

    static int updates;

    static String command(String... words) throws Exception {
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(1, List.of("--url=" + URL, "--username=" + System.getenv("PGUSER")));
        // Liquibase remembers in its process that a changelog was applied, unless it is filtered otherwise.
        if (words[0].startsWith("update")) all.add("--label-filter=!filter" + updates++);
        if (!WITHOUT_CHANGELOG.contains(words[0])) all.add("--changelog-file=changelog.xml");
        PrintStream before = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed));
        int status;
        try {
            status = new LiquibaseCommandLine().execute(all.toArray(new String[0]));
        } finally {
            System.setOut(before);
        }
        check(status == 0, words[0] + " ended with status " + status + "\n" + printed);
        return printed.toString();
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void sql(String url, String... statements) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url, System.getenv("PGUSER"), "");
             Statement statement = connection.createStatement()) {
            for (String text : statements) statement.execute(text);
        }
    }

    public static void main(String[] arguments) throws Exception {
        sql(URL, "CREATE DATABASE reference");
        check(command("status").contains("have not been applied"), "status");
        command("update-count", "--count=2");
        command("tag", "--tag=two");
        command("update");
        command("update");
        check(command("status").contains("up to date"), "status after update");
        command("history");
        command("validate");
        command("rollback", "--tag=two");
        command("update-testing-rollback");
        command("update");
        command("rollback-count", "--count=1");
        command("update");
        command("calculate-checksum", "--changeset-identifier=changelog.xml::people::a");
        sql(HOST + "reference", "CREATE TABLE people (id int PRIMARY KEY, other text)", "CREATE TABLE more (id int)", "CREATE VIEW seen AS SELECT 1 AS one");
        String diff = command("diff", "--reference-url=" + HOST + "reference", "--reference-username=" + System.getenv("PGUSER"));
        check(diff.contains("more") && diff.contains("people.other"), diff);
        command("diff-changelog", "--reference-url=" + HOST + "reference", "--reference-username=" + System.getenv("PGUSER"), "--changelog-file=diff.xml");
        command("generate-changelog", "--changelog-file=made.xml", "--diff-types=tables,views,columns,indexes,foreignkeys,primarykeys,uniqueconstraints,sequences");
        String made = Files.readString(Path.of("made.xml"));
        for (String word : List.of("people", "pets", "owner_of_pet", "keyed_key")) check(made.contains(word), word + " is missing:\n" + made);
        command("snapshot", "--snapshot-format=json");
        command("drop-all", "--force=true");
    }
}
