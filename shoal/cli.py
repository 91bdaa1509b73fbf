"""The `shoal` command: argparse, one function a sub-command, an error of one line and a non-zero exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version

from catalog.errors import SqlError
from engine.storage.directory_lock import check_free
from shoal.commands import add_commands, run_command
from shoal.config import Config, ConfigError, ConfigSources, config_of_settings, resolve_settings

EXAMPLES = """examples:
  shoal serve                                     data in ./shoal-data, on 127.0.0.1:5432
  shoal serve --data /var/lib/shoal --listen 127.0.0.1:6543
  shoal serve --admin 127.0.0.1:8080              with metrics and health checks over HTTP
  shoal serve --config shoal.toml                 the same from a file:  data = "/var/lib/shoal"
                                                                         listen = "127.0.0.1:6543"
  shoal serve --data a --listen 127.0.0.1:5432 --node a \\
      --cluster zk://127.0.0.1:2181/shoal --store file:///var/lib/shoal-log
then:
  psql "host=127.0.0.1 user=postgres"
"""

LOGSTORE_EXAMPLES = """examples:
  shoal logstore --data /var/lib/shoal-log --listen 127.0.0.1:7301
  shoal logstore --data /var/lib/shoal-log --listen 10.0.0.7:7301 --secret-file /etc/shoal/store-secret \\
      --tls-cert /etc/shoal/store.crt --tls-key /etc/shoal/store.key

TLS is required on an address that other machines reach, unless SHOAL_STORE_PLAINTEXT=allow is set for the log store and
for the servers. The servers of a cluster reach the store as logs://10.0.0.7:7301, with the same secret in
SHOAL_STORE_SECRET, or in the file that SHOAL_STORE_SECRET_FILE names. A store of three keeps working when one is down:
  quorum(3,3,2):logs://10.0.0.7:7301,logs://10.0.0.8:7301,logs://10.0.0.9:7301
"""

CONFIG_EXAMPLES = """examples:
  shoal config
  shoal config --config /etc/shoal/shoal.toml --json
  SHOAL_LISTEN=127.0.0.1:6543 shoal config --data a           flags override the environment, which overrides the file
"""

ROUTER_EXAMPLES = """examples:
  shoal router --cluster zk://127.0.0.1:2181/shoal
  shoal router --cluster zk://127.0.0.1:2181/shoal --listen 127.0.0.1:6543 --http 127.0.0.1:8090
  curl -s http://127.0.0.1:8090/sql -H 'Content-Type: text/plain' -d 'SELECT 6 * 7'
"""

READY = "print the addresses as one JSON object when ready"
ROUTER = "Accepts PostgreSQL clients and connects each to a live node of the cluster; serves POST /sql over HTTP."


def parser() -> argparse.ArgumentParser:
    """The command line of `shoal`."""
    top = argparse.ArgumentParser(
        prog="shoal",
        description="A distributed SQL database that any PostgreSQL driver can use.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"shoal {version('shoal')}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    serve = commands.add_parser(
        "serve",
        help="run a server",
        description="Runs a server until SIGTERM or SIGINT; both let running statements finish and flush to disk.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _settings(serve)
    serve.add_argument("--json", action="store_true", help=READY)
    config = commands.add_parser(
        "config",
        help="show every setting with its source",
        description="Shows the settings that `shoal serve` would use with the same options, and the source of each.",
        epilog=CONFIG_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _settings(config)
    config.add_argument("--json", action="store_true", help="one JSON object")
    _logstore_parser(commands)
    _router_parser(commands)
    add_commands(commands)
    return top


def _settings(command: argparse.ArgumentParser) -> None:
    """The settings of the command line; their names are those of Config."""
    command.add_argument("--data", metavar="DIR", help="directory of the database (default: ./shoal-data)")
    command.add_argument("--listen", metavar="HOST:PORT", help="address to listen on (default: 127.0.0.1:5432)")
    command.add_argument(
        "--admin",
        metavar="HOST:PORT",
        help="address of the console, /metrics, /healthz and /readyz (default: none); https://HOST:PORT uses TLS, "
        "which is required on addresses that other machines reach",
    )
    command.add_argument(
        "--host-rules", metavar="FILE", help="rules that admit clients by address, database and role, like pg_hba.conf"
    )
    command.add_argument("--tls-cert", metavar="FILE", help="certificate in PEM; clients may then use TLS")
    command.add_argument("--tls-key", metavar="FILE", help="key of the certificate (default: in the same file)")
    command.add_argument(
        "--config",
        metavar="FILE",
        help="TOML file with the same settings; overridden by the environment (SHOAL_LISTEN, ...) and by flags",
    )
    command.add_argument("--cluster", metavar="URL", help="join the cluster zk://HOST:PORT,HOST:PORT/NAME")
    command.add_argument(
        "--store", metavar="URL", help="changelog store of the cluster: file:///DIR, s3://..., log://..., quorum(...)"
    )
    _log_format(command)
    command.add_argument("--read-from", metavar="URL", help="a regional copy of the store, filled by its readers")
    command.add_argument("--node", metavar="ID", help="name of this node in the cluster (default: the host's name)")
    command.add_argument(
        "--history-retention",
        metavar="SECONDS",
        type=float,
        help="how much history to keep, for time travel and for restores to any LSN (default: none)",
    )


def _log_format(command: argparse.ArgumentParser, default: str | None = None) -> None:
    choices = ("text", "json")
    command.add_argument(
        "--log-format", choices=choices, default=default, help="format of the log on standard error (default: text)"
    )


def _logstore_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    logstore = commands.add_parser(
        "logstore",
        help="keep the changelogs of clusters",
        description="Keeps the changelogs of clusters in a directory and serves them, until SIGTERM or SIGINT.",
        epilog=LOGSTORE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    logstore.add_argument("--data", metavar="DIR", required=True, help="directory of the changelogs")
    logstore.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:7301", help="address to listen on (default: %(default)s)"
    )
    logstore.add_argument(
        "--secret-file",
        metavar="FILE",
        help="file with the secret that clients must know (default: SHOAL_STORE_SECRET)",
    )
    logstore.add_argument(
        "--tls-cert", metavar="FILE", default="", help="certificate in PEM; the store then serves TLS, as logs://"
    )
    logstore.add_argument(
        "--tls-key", metavar="FILE", default="", help="key of the certificate (default: in the same file)"
    )
    logstore.add_argument(
        "--tls-client-ca", metavar="FILE", default="", help="accept only clients with a certificate of this authority"
    )
    _log_format(logstore, "text")
    logstore.add_argument("--json", action="store_true", help=READY)


def _router_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    router = commands.add_parser(
        "router",
        help="run a router, the single address of a cluster",
        description=ROUTER,
        epilog=ROUTER_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    router.add_argument("--cluster", metavar="zk://HOST:PORT,.../NAME", required=True, help="address of its ZooKeeper")
    router.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:5432",
        help="address for PostgreSQL clients (default: %(default)s)",
    )
    router.add_argument("--http", metavar="HOST:PORT", default="", help="address for SQL over HTTP (default: none)")
    router.add_argument(
        "--max-connections",
        metavar="N",
        type=int,
        default=2000,
        help="maximum number of clients (default: %(default)s)",
    )
    _log_format(router, "text")
    router.add_argument("--json", action="store_true", help=READY)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "logstore":
            from shoal.logstore import logstore

            tls = (options.tls_cert, options.tls_key, options.tls_client_ca)
            return logstore(options.data, options.listen, options.secret_file, *tls, options.log_format, options.json)
        if options.command == "router":
            from shoal.router import RouterConfig, route

            return route(
                RouterConfig(
                    options.cluster, options.listen, options.http, options.max_connections, options.log_format,
                    options.json,
                )
            )  # fmt: skip
        if options.command == "completion":
            from shoal.commands.completion import script

            print(script(options.shell, parser()))
            return 0
        if options.command not in ("serve", "config"):
            return run_command(options)
        flags = {field.name: getattr(options, field.name, None) for field in fields(Config)}
        if options.command == "config":
            from shoal.commands import config

            return config.run(options, resolve_settings(options.config, flags, os.environ))
        sources = ConfigSources(options.config, flags, os.environ)
        settings = config_of_settings(sources.settings())
        check_free(settings.data)
        from shoal.serve import serve  # the server's packages take a moment to load; --help does not need them

        return serve(settings, options.json, sources)
    except (ConfigError, SqlError, OSError) as error:
        message = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            message = f"{error.filename}: {error.strerror}"
        if isinstance(error, SqlError):
            message = error.message if error.hint is None else f"{error.message}. {error.hint}"
        print(f"shoal: {message}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
