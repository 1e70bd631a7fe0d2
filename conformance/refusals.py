"""What every dialect promises of errors: bad calls are refused by a status, in the dialect's form, and harm nothing."""

from __future__ import annotations

from conformance.claim import Claim, InapplicableError, hold, told
from conformance.server import Dialect, Server, Spoiled


def refusals(dialect: Dialect) -> list[Claim[Server]]:
    """The claims about errors, made of the dialect's spoiled bodies."""
    wanted = f"refused with {' or '.join(map(str, dialect.refused))}"
    lost = "A model that isn't there is refused with 404"
    place = dialect.errors
    return [
        *(_refused(spoiled, wanted) for spoiled in dialect.spoiled),
        Claim("errors.malformed", f"A body that is no JSON is {wanted}", place, _malformed),
        Claim("errors.stream", "An error before a stream's first event is a status, and JSON", place, _stream),
        *([Claim("errors.model", lost, place, _unknown_model)] if dialect.lost else []),
        Claim("errors.key", "A call with a wrong key is refused with 401", place, _wrong_key),
        Claim("errors.form", f"Errors have the form {dialect.error_form}", place, _form),
        Claim("errors.harmless", "After all these errors the server answers", "", _harmless),
    ]


def _form(server: Server) -> str:
    refused = []
    for spoiled in server.dialect.spoiled:
        answer = server.client.post(server.path(), json=server.body(spoiled.change))
        if answer.status_code >= 400:
            server.dialect.check_error(answer)
            refused.append(answer)
    hold(refused, "no bad body was refused")
    return refused[0].text


def _refused(spoiled: Spoiled, wanted: str) -> Claim[Server]:
    def attempt(server: Server) -> str:
        answer = server.client.post(server.path(), json=server.body(spoiled.change))
        return server.refusal(answer, server.dialect.refused)

    return Claim(f"errors.{spoiled.name}", f"{spoiled.fault} is {wanted}", spoiled.where, attempt)


def _malformed(server: Server) -> str:
    headers = {"content-type": "application/json"}
    answer = server.client.post(server.path(), content=b'{"model": ', headers=headers)
    return server.refusal(answer, server.dialect.refused)


def _stream(server: Server) -> str:
    change = dict(server.dialect.spoiled[0].change) | dict(server.dialect.streaming)
    answer = server.client.post(server.path(), json=server.body(change))
    seen = server.refusal(answer, server.dialect.refused)
    kind = answer.headers.get("content-type", "")
    hold(kind.startswith("application/json"), f"the content-type is {kind!r}")
    return seen


def _unknown_model(server: Server) -> str:
    name = "nobody-has-this"
    named = {} if "{model}" in server.dialect.path else {"model": name}
    answer = server.client.post(server.path(name), json=server.body(named))
    return server.refusal(answer, (404,))


def _wrong_key(server: Server) -> str:
    headers = server.dialect.key_header("wrong")
    answer = server.client.post(server.path(), json=server.body({}), headers=headers)
    if answer.status_code == 200:
        raise InapplicableError("the server asks for no key")
    return server.refusal(answer, (401,))


def _harmless(server: Server) -> str:
    events = server.events()
    hold(events, "the stream has no event")
    return told(events[0].data)
