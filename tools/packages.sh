#!/bin/sh
# Installs the Debian packages that tests and benches use, where they are missing:
# a PostgreSQL as the oracle, with its psql and pgbench; a ZooKeeper (its Java library, no service); the JDBC and ODBC
# drivers, and a Java compiler for a client; a C compiler for what makes operations on files fail; a Chromium for the
# console; sqlsmith; promtool, which comes with Prometheus; the shells zsh and fish; what the commands in docs/ use.
# Clients for Node, Go and Rust are tested where these are installed.
# `tools/packages.sh cluster`: only what a cluster on this machine needs.
set -eu
missing=""
if [ "${1:-all}" = all ]; then
    [ -n "$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || missing="$missing postgresql postgresql-contrib"
    command -v psql >/dev/null || missing="$missing postgresql-client"
    command -v pgbench >/dev/null || missing="$missing postgresql-contrib"
    command -v openssl >/dev/null || missing="$missing openssl"
    command -v cc >/dev/null || missing="$missing gcc libc6-dev"
    command -v javac >/dev/null || missing="$missing default-jdk-headless"
    command -v chromium >/dev/null || missing="$missing chromium"
    command -v jq >/dev/null || missing="$missing jq"
    command -v curl >/dev/null || missing="$missing curl"
    command -v ip >/dev/null || missing="$missing iproute2"
    command -v zsh >/dev/null || missing="$missing zsh"
    command -v fish >/dev/null || missing="$missing fish"
    command -v sqlsmith >/dev/null || missing="$missing sqlsmith"
    command -v promtool >/dev/null || missing="$missing prometheus"
    [ -e /usr/share/java/postgresql.jar ] || missing="$missing libpostgresql-jdbc-java"
    [ -n "$(ls /usr/lib/*/odbc/psqlodbcw.so 2>/dev/null)" ] || missing="$missing odbc-postgresql"
    [ -n "$(ls /usr/lib/*/libodbc.so.2 2>/dev/null)" ] || missing="$missing unixodbc"
fi
[ -e /usr/share/java/zookeeper.jar ] || missing="$missing libzookeeper-java"
command -v java >/dev/null || missing="$missing default-jre-headless"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ]; then sudo=""; else sudo="sudo"; fi
echo "installing Debian packages:$missing"
$sudo apt-get update -qq
# A server that the package starts by itself would take port 5432: tests start their own.
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
