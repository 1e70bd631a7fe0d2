"""The text that a run prints when it is ready: addresses, and an example request for a served model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sluice.v1 import model_pb2

from process.network.address import host_port
from runner.settings import Settings
from runner.state import operator_token_file

_METRICS_HOST: Final = "127.0.0.1"  # the default of the service's metrics_host
_QUESTION: Final = "Hello! Who are you?"
_REQUESTS: Final[dict[int, tuple[str, dict[str, Any]]]] = {  # by task: the path, and the body without the model
    model_pb2.TASK_CHAT: ("chat/completions", {"stream": True, "messages": [{"role": "user", "content": _QUESTION}]}),
    model_pb2.TASK_COMPLETION: ("completions", {"stream": True, "max_tokens": 64, "prompt": "Once upon a time"}),
    model_pb2.TASK_EMBEDDING: ("embeddings", {"input": [_QUESTION]}),
}


def greeting(settings: Settings, models: Sequence[model_pb2.Model]) -> str:
    """Return the text. `models` is empty if only API keys may list them; the example is then a chat request."""
    tls = settings.development_tls()
    scheme, flags = ("http", "") if tls is None else ("https", tls.curl_flags())
    host = settings.host
    if (public := settings.public_tls()) is not None:
        flags, host = public.curl_flags(), public.host_name() or host
    base = f"{scheme}://{host_port(host, settings.envoy_port)}"
    metrics = f"http://{host_port(_METRICS_HOST, settings.service_metrics_port)}/metrics"
    names = ", ".join(model.name for model in models) or ", ".join(settings.served()) or "the bundled ones"
    return f"""
sluice is ready.
  models          {names}
  Envoy           {base}   send requests here: REST, SSE, gRPC, gRPC-web
  pages           {base}/ to chat on, {base}/status for operators
  API reference   {base}/docs
  gateway         {scheme}://{host_port(settings.host, settings.gateway_port)}   REST, SSE; metrics at /metrics
  service         {host_port(settings.host, settings.service_port)}   gRPC; metrics at {metrics}
{_operator_lines(settings)}
Try:
  {_request(settings, models, base, flags)}

Ctrl-C stops everything.
"""


def _operator_lines(settings: Settings) -> str:
    """Return the lines for operators: the operator token's file, and the port of Envoy's admin interface."""
    lines = ""
    if settings.keys_file is None:
        lines += f"  operator token  {operator_token_file(settings.state())}   for changes of models and endpoints\n"
    if settings.envoy_admin_port is not None:
        lines += f"  Envoy admin     http://127.0.0.1:{settings.envoy_admin_port}\n"
    return lines


def _request(settings: Settings, models: Sequence[model_pb2.Model], base: str, flags: str) -> str:
    """Return a curl command that tries a served model."""
    name, task = next(iter(settings.served()), "sluice-demo"), int(model_pb2.TASK_CHAT)
    for model in models:
        if fit := next((each for each in _REQUESTS if each in model.tasks), None):
            name, task = model.name, fit
            break
    path, body = _REQUESTS[task]
    key = "" if settings.keys_file is None else " -H 'authorization: Bearer YOUR-KEY'"
    return (
        f"curl -N{flags} {base}/v1/{path} -H 'content-type: application/json'{key} "
        f"-d '{json.dumps({'model': name, **body})}'"
    )
