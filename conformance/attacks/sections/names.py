"""Names and paths that lead out of where they belong."""

from __future__ import annotations

from conformance.attacks.target import Target, handled, rejected
from conformance.claim import Claim, claims_into, hold, shown

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
CWE = "CWE-22"
UP = "../" * 8
WRITES = (
    "/slots/0?action=save",
    "/v1/load_lora_adapter",
    "/lora-adapters",
    "/props",
    "/models/load",
    "/api/pull",
    "/api/create",
)


def _no_file(text: str) -> None:
    hold("root:" not in text, f"the content of a file: {text}")


@attack("names.traversal", "A model's name that is a path to a file is rejected", CWE)
def _(target: Target) -> str:
    seen = []
    for name in (
        f"{UP}etc/passwd",
        "..\\..\\windows\\win.ini",
        "....//....//etc/passwd",
        "%2e%2e%2fetc%2fpasswd",
        "~/.ssh",
    ):
        answer = target.chat(model=name)
        _no_file(answer.text)
        seen.append(rejected(answer))
    return ", ".join(seen)


@attack("names.absolute", "A model's name that is a folder of the server is rejected", CWE)
def _(target: Target) -> str:
    return ", ".join(rejected(target.chat(model=each)) for each in ("/", "/etc", "/proc/self/cwd", "."))


@attack("names.nul", "A model's name with NUL, line breaks or 1 MiB is rejected", "CWE-158")
def _(target: Target) -> str:
    names = (target.rest.model + "\0", "\r\n", target.rest.model + "\n", "a" * 2**20)
    return ", ".join(rejected(target.chat(model=each)) for each in names)


@attack("names.urls", "Encoded paths out of the served folders show no file", CWE)
def _(target: Target) -> str:
    ups = ("../", "..%2f", "%2e%2e/", "%252e%252e%252f", "..%5c", "..;/", "%c0%ae%c0%ae/")
    for prefix in ("/", "/static/", "/docs/", "/assets/", "/v1/models/"):
        for up in ups:
            reply = target.raw(target.head("Connection: close", method="GET", path=f"{prefix}{up * 8}etc/passwd"))
            _no_file(reply.raw.decode("latin-1"))
            hold(all(status < 500 for status in reply.statuses), f"{prefix}{up}: {reply}")
    return f"{5 * len(ups)} paths were tried"


@attack("names.hidden", "Hidden files and folders are not served", "CWE-538")
def _(target: Target) -> str:
    paths = ("/.env", "/.git/config", "/.git/HEAD", "/config.json", "/keys.yaml", "/proc/self/environ", "/server.log")
    found = [path for path in paths if _is_file(target, path)]
    hold(not found, f"served: {shown(found)}")
    return f"{len(paths)} paths were tried"


def _is_file(target: Target, path: str) -> bool:
    answer = target.rest.client.get(path)
    handled(answer)
    return answer.status_code == 200 and "html" not in answer.headers.get("content-type", "")


@attack("names.writes", "Without a right to change the server, no path writes a file or loads a model", "CWE-862")
def _(target: Target) -> str:
    body = {"filename": f"{UP}tmp/attack", "lora_name": "a", "lora_path": "/etc", "model": "/etc", "name": f"{UP}a"}
    answers = {path: target.rest.client.post(path, json=body) for path in WRITES}
    wrong = {path: answer.status_code for path, answer in answers.items() if answer.status_code < 400}
    hold(not wrong, f"accepted: {shown(wrong)}")
    return shown({path: answer.status_code for path, answer in answers.items()})


@attack("names.files", "Ids of files and answers that are paths are not found", CWE)
def _(target: Target) -> str:
    seen = []
    for path in ("/v1/files/", "/v1/responses/", "/v1/batches/"):
        for name in ("..%2f..%2f..%2fetc%2fpasswd", "%00", "a" * 5000):
            answer = target.rest.client.get(path + name)
            _no_file(answer.text)
            seen.append(rejected(answer))
    return ", ".join(sorted(set(seen)))
