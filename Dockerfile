# docker build -t ars . && docker run --rm -v "$PWD/runs:/data/runs" ars demo
# On a GPU: docker run --rm --gpus all ...
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE CHANGELOG.md /src/
COPY src /src/src
RUN pip install --no-cache-dir /src
WORKDIR /data
ENTRYPOINT ["ars"]
