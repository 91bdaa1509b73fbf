#!/bin/sh
# Installs the Debian packages that tests and benches use, where they are missing:
# a PostgreSQL as the oracle, with its psql and pgbench; a ZooKeeper (its Java library, no service).
# `tools/packages.sh cluster`: only what a cluster on this machine needs.
set -eu
missing=""
if [ "${1:-all}" = all ]; then
    [ -n "$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || missing="$missing postgresql postgresql-contrib"
    command -v psql >/dev/null || missing="$missing postgresql-client"
    command -v pgbench >/dev/null || missing="$missing postgresql-contrib"
    command -v openssl >/dev/null || missing="$missing openssl"
fi
[ -e /usr/share/java/zookeeper.jar ] || missing="$missing libzookeeper-java"
command -v java >/dev/null || missing="$missing default-jre-headless"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ]; then sudo=""; else sudo="sudo"; fi
echo "installing Debian packages:$missing"
$sudo apt-get update -qq
# A server that the package starts by itself would take port 5432: tests start their own.
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
