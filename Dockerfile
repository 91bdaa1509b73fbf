# Shoal in a container: `docker build -t shoal .`, then `docker run shoal serve --help`. See compose.yaml.
FROM python:3.12-slim-bookworm
COPY . /src
RUN pip install --no-cache-dir /src && rm -rf /src \
    && useradd --system --create-home shoal && mkdir /data /changelog && chown shoal /data /changelog
USER shoal
WORKDIR /data
VOLUME /data
STOPSIGNAL SIGTERM
ENTRYPOINT ["shoal"]
