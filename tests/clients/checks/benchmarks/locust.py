"""Locust, a load generator: simulated users send requests and read streams."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LOCUSTFILE = '''
import json

from locust import HttpUser, constant, task


class Caller(HttpUser):
    """Sends the next request at once. The run ends when every kind was answered."""

    wait_time = constant(0)
    kinds = set()

    def sent(self, kind):
        self.kinds.add(kind)
        if len(self.kinds) == 3:
            self.environment.runner.quit()

    def body(self, **more):
        return {"model": "sluice-demo", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 8, **more}

    @task
    def whole(self):
        with self.client.post("/v1/chat/completions", json=self.body(), name="whole", catch_response=True) as answer:
            if not answer.json()["choices"][0]["message"]["content"]:
                answer.failure("no content")
        self.sent("whole")

    @task
    def streamed(self):
        body = self.body(stream=True, stream_options={"include_usage": True})
        request = {"json": body, "name": "streamed", "stream": True, "catch_response": True}
        with self.client.post("/v1/chat/completions", **request) as answer:
            lines = [line.removeprefix(b"data: ") for line in answer.iter_lines() if line]
            if lines[-1] != b"[DONE]" or not json.loads(lines[-2])["usage"]["completion_tokens"]:
                answer.failure("no end")
        self.sent("streamed")

    @task
    def embedded(self):
        self.client.post("/v1/embeddings", json={"model": "all-minilm-l6-v2", "input": "a cat"}, name="embedded")
        self.sent("embedded")
'''


def check_locust(url: str, _: str) -> None:
    """All requests of users that start one by one succeed: unstreamed, streamed and embeddings; each kind has a row."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "locustfile.py")
        path.write_text(LOCUSTFILE)
        limits = ["--users=4", "--spawn-rate=4", "--run-time=300s", "--stop-timeout=30"]
        command = [sys.executable, "-m", "locust", f"--locustfile={path}", f"--host={url}", "--headless", *limits]
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}  # its CSV files lack the last second
    for kind in ("whole", "streamed", "embedded"):
        assert rows[kind]["num_requests"] > 0, rows
        assert rows[kind]["num_failures"] == 0, rows
