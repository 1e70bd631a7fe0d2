"""Claims about errors, common to all dialects: bad calls get a status and the dialect's error body, and do no harm."""

from __future__ import annotations

from conformance.claim import Claim, InapplicableError, hold, shown
from conformance.server import Dialect, Server, Spoiled


def error_claims(dialect: Dialect) -> list[Claim[Server]]:
    """Return the claims about errors, one for each invalid body of the dialect and some for all."""
    wanted = f"rejected with {' or '.join(map(str, dialect.rejection_statuses))}"
    lost = "An unknown model is rejected with 404"
    where = dialect.errors
    return [
        *(_rejected(spoiled, wanted) for spoiled in dialect.spoiled),
        Claim("errors.malformed", f"A body that is not JSON is {wanted}", where, _malformed),
        Claim("errors.stream", "An error before a stream's first event has a status and a JSON body", where, _stream),
        *([Claim("errors.model", lost, where, _unknown_model)] if dialect.lost else []),
        Claim("errors.key", "A call with a wrong key is rejected with 401", where, _wrong_key),
        Claim("errors.form", f"Errors have the form {dialect.error_form}", where, _form),
        Claim("errors.harmless", "The server still answers after all these errors", "", _harmless),
    ]


def _form(server: Server) -> str:
    rejected = []
    for spoiled in server.dialect.spoiled:
        answer = server.client.post(server.path(), json=server.body(spoiled.change))
        if answer.status_code >= 400:
            server.dialect.check_error(answer)
            rejected.append(answer)
    hold(rejected, "no bad body was rejected")
    return rejected[0].text


def _rejected(spoiled: Spoiled, wanted: str) -> Claim[Server]:
    def attempt(server: Server) -> str:
        answer = server.client.post(server.path(), json=server.body(spoiled.change))
        return server.rejection(answer, server.dialect.rejection_statuses)

    return Claim(f"errors.{spoiled.name}", f"{spoiled.fault} is {wanted}", spoiled.where, attempt)


def _malformed(server: Server) -> str:
    headers = {"content-type": "application/json"}
    answer = server.client.post(server.path(), content=b'{"model": ', headers=headers)
    return server.rejection(answer, server.dialect.rejection_statuses)


def _stream(server: Server) -> str:
    change = dict(server.dialect.spoiled[0].change) | dict(server.dialect.streaming)
    answer = server.client.post(server.path(), json=server.body(change))
    seen = server.rejection(answer, server.dialect.rejection_statuses)
    kind = answer.headers.get("content-type", "")
    hold(kind.startswith("application/json"), f"the content-type is {kind!r}")
    return seen


def _unknown_model(server: Server) -> str:
    name = "no-such-model"
    named = {} if "{model}" in server.dialect.path else {"model": name}
    answer = server.client.post(server.path(name), json=server.body(named))
    return server.rejection(answer, (404,))


def _wrong_key(server: Server) -> str:
    headers = server.dialect.key_header("wrong")
    answer = server.client.post(server.path(), json=server.body({}), headers=headers)
    if answer.status_code == 200:
        raise InapplicableError("the server requires no key")
    return server.rejection(answer, (401,))


def _harmless(server: Server) -> str:
    events = server.events()
    hold(events, "the stream has no event")
    return shown(events[0].data)
