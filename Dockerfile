# Shoal in a container: `docker build -t shoal .`, then `docker run shoal serve --help`. See compose.yaml.
FROM python:3.12-slim-bookworm
COPY requirements.lock /src/
# Nothing comes in but what the lock knows by its hash: setuptools, which builds the wheel, is part of it.
RUN pip install --no-cache-dir --require-hashes -r /src/requirements.lock
COPY . /src
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src && pip uninstall --yes setuptools && rm -rf /src \
    && useradd --system --create-home shoal && mkdir /data /changelog && chown shoal /data /changelog
USER shoal
WORKDIR /data
VOLUME /data
EXPOSE 5432
# Of what listens elsewhere than `shoal health` looks, SHOAL_LISTEN says where, or a health check of its own.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s CMD ["shoal", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["shoal"]
