"""An HTTP client of a running server, in OpenAI's dialect. It works with other servers of that dialect too."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx

from cli.calls.client_certificate import CertificateError, tls_context
from cli.calls.tls_hint import tls_problem

DEFAULT_URL: Final = "http://127.0.0.1:8080"
_TIMEOUT: Final = httpx.Timeout(30, read=600)  # a request may be queued before its first token
KEY_HINT: Final = "give a key by SLUICE_API_KEY"


class ServerError(Exception):
    """A call has failed; the text is one line for the user."""


def authorization(key: str) -> str:
    """Return the header `authorization` for an API key. Raise ServerError for a key that no header can have."""
    if not (key.isascii() and key.isprintable()):
        raise ServerError("the API key must have printable ASCII characters only")
    return f"Bearer {key}"


class Server:
    """A client of one server. It must be closed after use."""

    def __init__(self, url: str, key: str | None = None, ca_file: str | None = None) -> None:
        """`url` is the base URL, with or without /v1. Raise ServerError if it is invalid."""
        self.url = url.rstrip("/").removesuffix("/v1")
        headers = {"authorization": authorization(key)} if key else {}
        try:
            # Without TLS, reading the public authorities' certificates would take 20 ms of each command.
            is_secure = self.url.startswith("https")
            verify = tls_context(ca_file) if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._client = httpx.Client(base_url=self.url, headers=headers, timeout=_TIMEOUT, verify=verify)
        except CertificateError as error:
            raise ServerError(str(error)) from error
        except (httpx.InvalidURL, ValueError, UnicodeError) as error:
            raise ServerError(f"{url}: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str) -> Any:
        """Return the JSON of `path`. Raise ServerError."""
        return self._answer("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send `body` and return the JSON response. Raise ServerError."""
        return self._answer("POST", path, body)

    def text(self, path: str) -> str | None:
        """Return the text of `path`, or None if it does not exist or is not allowed. Raise ServerError."""
        with self._reached():
            answer = self._client.get(path)
        return answer.text if answer.is_success else None

    def status(self, path: str) -> int:
        """Return the HTTP status of `path`. Raise ServerError if there is no server."""
        with self._reached():
            return self._client.get(path).status_code

    @contextmanager
    def stream(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the events of a stream; leaving the block aborts the answer. Raise ServerError."""
        with (
            self._reached(),
            self._client.stream("POST", path, json={**body, "stream": True}, headers=headers) as answer,
        ):
            if not answer.is_success:
                answer.read()
                raise ServerError(_reason(answer))
            yield _events(answer)

    def models(self) -> list[str]:
        """Return the names of the served models, generating models first. Raise ServerError."""
        return [entry["id"] for entry in self.get("/v1/models")["data"]]

    def embedding_model(self) -> str:
        """Return the first embedding model. Raise ServerError if there is none."""
        for endpoint in self.get("/api/2.0/serving-endpoints").get("endpoints", []):
            if endpoint.get("task") == "llm/v1/embeddings":
                return str(endpoint["name"])
        raise ServerError(f"{self.url} serves no embedding model; name one with --model")

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        """Send a request and return the body of its response. Raise ServerError for an error response."""
        with self._reached():
            answer = self._client.request(method, path, json=body)
        if not answer.is_success:
            raise ServerError(_reason(answer))
        try:
            return answer.json()
        except ValueError as error:
            raise ServerError(f"{self.url}{path} responded, but not with JSON; is it a model server?") from error

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise ServerError for connection errors inside the block."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if (problem := tls_problem(self.url, str(error))) is not None:
                raise ServerError(problem) from error
            raise ServerError(f"no server at {self.url} ({error}); `sluice serve` starts one here") from error
        except httpx.TimeoutException as error:
            raise ServerError(f"{self.url} did not respond in time") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            problem = tls_problem(self.url, str(error))
            raise ServerError(problem or f"{self.url}: {str(error) or type(error).__name__}") from error


def _events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream of server-sent events. Raise ServerError for an error event."""
    for line in _lines(answer):
        if (data := line.removeprefix(b"data:").lstrip()).startswith(b"{") and data is not line:
            try:
                event = json.loads(data)
            except ValueError as error:
                raise ServerError(f"{answer.url} sent an event that is not JSON") from error
            if "error" in event:
                raise ServerError(_text(event["error"]))
            yield event


def _lines(answer: httpx.Response) -> Iterator[bytes]:
    """Yield lines split at line feeds only; httpx also splits at other characters, which JSON may contain."""
    rest = b""
    for data in answer.iter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    yield rest


def _reason(answer: httpx.Response) -> str:
    """Return the server's error message on one line."""
    try:
        text = _text(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        text = answer.text.strip().partition("\n")[0][:200] or answer.reason_phrase
    hint = f"; {KEY_HINT}" if answer.status_code == httpx.codes.UNAUTHORIZED else ""
    return f"{text}{hint}"


def _text(error: Any) -> str:
    """Return the text of an error in a response body, with the field that it names."""
    if not isinstance(error, dict):
        return str(error)
    field = error.get("param")
    text = str(error.get("message", error))
    return f"{field}: {text}" if field and field not in text else text
